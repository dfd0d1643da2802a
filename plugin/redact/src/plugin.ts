import { definePlugin } from '@codedock/plugin-sdk';

export const plugin = definePlugin({ name: 'redact', version: '0.1.0' });
