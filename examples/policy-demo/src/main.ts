#!/usr/bin/env node
import { serve } from '@codedock/plugin-sdk';
import { plugin } from './plugin.js';

serve(plugin);
