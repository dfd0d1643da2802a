import { type AppConfig, readConfig } from '@codedock/platform';

/** The runner's configuration. */
export type RunnerConfig = AppConfig<'runner'>;

/** Reads it from the environment. @throws ConfigError naming every wrong variable and its remedy. */
export function readRunnerConfig(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): RunnerConfig {
  return readConfig('runner', environment);
}
