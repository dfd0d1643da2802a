const COLOURS = { codedock: 36, gateway: 32, runner: 35, 'plugin-host': 33 };
const coloured = process.stdout.isTTY === true && !process.env.NO_COLOR;
const WIDTH = 12;

/** Prints lines of the starter itself. */
export function say(text) {
  prefixed('codedock', text);
}

/** Prints lines with the name of where they come from in front. */
export function prefixed(name, text) {
  const head = name.padEnd(WIDTH);
  const shown = coloured ? `\u001b[${COLOURS[name] ?? 36}m${head}\u001b[0m` : head;
  for (const line of text.split('\n')) process.stdout.write(`${shown}${line}\n`);
}
