import { basename, resolve } from 'node:path';
import { type Check, type CheckResult, measured, resultOf } from './check.js';
import { answerChecks } from './checks/answers.js';
import { endChecks } from './checks/end.js';
import { startChecks } from './checks/start.js';
import { strangerChecks } from './checks/strangers.js';
import { directiveChecks, directivesCapability } from './directives/checks.js';
import { Specimen, type SpecimenOptions } from './specimen.js';

/** What is known of a plugin after its checks. */
export interface ConformanceReport {
  readonly plugin: string;
  readonly folder: string;
  /** Absent where it did not start. */
  readonly transport?: 'grpc' | 'stdio';
  readonly autoMtls?: boolean;
  readonly version?: string;
  readonly subscriptions: readonly string[];
  /** Whether it follows directives, and so was asked for every decision. */
  readonly directives: boolean;
  readonly results: readonly CheckResult[];
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Puts all checks that concern the plugin of a folder to it, one after the other. `onResult` hears of each. */
export async function checkConformance(
  folder: string,
  options: SpecimenOptions,
  onResult: (result: CheckResult) => void = () => undefined,
): Promise<ConformanceReport> {
  const results: CheckResult[] = [];
  const add = (result: CheckResult) => {
    results.push(result);
    onResult(result);
  };
  let started: Specimen | undefined;
  add(
    await measured('start', `is a plugin folder, and comes up within ${options.startTimeoutMs} ms`, async () => {
      started = await Specimen.start(resolve(folder), options);
    }),
  );
  const specimen = started;
  if (specimen === undefined)
    return reportOf({ plugin: basename(resolve(folder)), folder, subscriptions: [], directives: false }, results);
  try {
    const { manifest, name, transport, settings } = specimen.plugin;
    const directives = manifest.capabilities.includes(directivesCapability);
    const checks: Check[] = [
      ...startChecks,
      ...answerChecks(specimen),
      ...strangerChecks,
      ...(directives ? directiveChecks(specimen) : []),
      ...endChecks,
    ];
    for (const check of checks) add(await resultOf(check, specimen));
    return reportOf(
      {
        plugin: name,
        folder,
        transport,
        ...(transport === 'grpc' ? { autoMtls: settings.autoMtls } : {}),
        version: manifest.version,
        subscriptions: manifest.subscriptions,
        directives,
      },
      results,
    );
  } finally {
    await specimen.close();
  }
}

type About = Omit<ConformanceReport, 'results' | 'passed' | 'failed' | 'skipped'>;

function reportOf(about: About, results: readonly CheckResult[]): ConformanceReport {
  const count = (outcome: CheckResult['outcome']) => results.filter((one) => one.outcome === outcome).length;
  return { ...about, results, passed: count('passed'), failed: count('failed'), skipped: count('skipped') };
}
