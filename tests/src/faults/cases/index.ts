import type { FaultCase } from '../fault-case.js';
import { crashPoints } from './crash-points.js';

/** Every case, in the order in which they are run: first those that share the standing system. */
export const CASES: readonly FaultCase[] = [crashPoints];
