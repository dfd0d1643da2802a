import { AppError } from '@codedock/domain';

/** One thing that is wrong with the configuration. `message` names the variable, its value and the remedy. */
export interface ConfigProblem {
  readonly variable: string;
  readonly message: string;
}

/** The configuration cannot be used; code `config_invalid`. Carries every problem, not only the first. */
export class ConfigError extends AppError {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const list = problems.map(({ message }) => `  - ${message}`).join('\n');
    super('config_invalid', `The configuration is not valid:\n${list}`);
    this.problems = problems;
  }
}
