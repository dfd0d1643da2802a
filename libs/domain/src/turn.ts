/** A turn: one model call and the tool calls of its reply. */
export interface Turn {
  readonly id: string;
  /** 1, 2, 3 … within the run. */
  readonly iteration: number;
}
