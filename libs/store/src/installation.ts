/** The tenant that owns what the whole installation shares: profiles from a file, the plugin chain. No key belongs to it. */
export const INSTALLATION = '00000000-0000-0000-0000-000000000000';
