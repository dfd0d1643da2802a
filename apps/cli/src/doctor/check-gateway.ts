import { about, type Finding, textOfError } from './finding.js';

const TIMEOUT_MS = 5_000;

interface PluginList {
  readonly items: readonly {
    readonly name: string;
    readonly state: string;
    readonly required: boolean;
    readonly disabled: boolean;
    readonly reason?: string;
    readonly replicas: readonly { readonly replica: string; readonly state: string; readonly reason?: string }[];
  }[];
  readonly epoch: number;
  readonly unreachable: readonly { readonly replica: string; readonly reason: string }[];
}

interface Chain {
  readonly epoch: number;
  readonly ready: boolean;
  readonly reason?: string;
}

/** The gateway, and through it the plugin-host replicas with their plugins and chain epoch. */
export async function checkGateway(url: string, apiKey: string | undefined): Promise<Finding[]> {
  const { ok, failed } = about('gateway', url);
  const ready = await fetchJson(`${url}/readyz`, undefined).catch((error: unknown) => textOfError(error));
  if (typeof ready === 'string') {
    return [failed(ready, 'Start the gateway, or give its address with --url; its log says what it waits for.')];
  }
  return [ok('ready'), ...(await checkPlugins(url, apiKey))];
}

async function checkPlugins(url: string, apiKey: string | undefined): Promise<Finding[]> {
  const { ok, failed, skipped } = about('plugins', url);
  if (apiKey === undefined) return [skipped('no API key', 'Put a key with the scope admin into CODEDOCK_API_KEY.')];
  try {
    const list = (await fetchJson(`${url}/v1/plugins`, apiKey)) as PluginList;
    const chain = (await fetchJson(`${url}/v1/plugins/explain`, apiKey)) as Chain;
    const replicas = new Set(list.items.flatMap((plugin) => plugin.replicas.map(({ replica }) => replica)));
    const summary = `${list.items.length} plugins on ${replicas.size} plugin-hosts, chain epoch ${list.epoch}`;
    return [
      chain.ready
        ? ok(summary)
        : failed(
            `gates cannot be asked: ${chain.reason ?? 'nobody says why'}`,
            'codedock plugins list shows who is down.',
          ),
      ...list.unreachable.map(({ replica, reason }) =>
        about('plugin-host', replica).failed(reason, 'Start it, or take its address out of PLUGIN_HOST_URL.'),
      ),
      ...epochs(url, list, chain),
      ...list.items.flatMap(ofPlugin),
    ];
  } catch (error) {
    return [failed(textOfError(error), 'Give CODEDOCK_API_KEY a key with the scope admin.')];
  }
}

/** The chain as gates are asked now, against what administrators have made of it. */
function epochs(url: string, list: PluginList, chain: Chain): Finding[] {
  if (chain.epoch === list.epoch) return [];
  const detail = `gates are asked under chain epoch ${chain.epoch}, the newest is ${list.epoch}`;
  return [about('plugins', url).warning(detail, 'Wait a few seconds; if it stays, restart the plugin-hosts.')];
}

function ofPlugin({ name, state, disabled, required, reason, replicas }: PluginList['items'][number]): Finding[] {
  const { warning, failed } = about('plugin', name);
  if (disabled || state === 'stopped')
    return [warning(`${state} by an administrator`, `codedock plugins enable ${name}`)];
  const down = replicas.filter((one) => one.state !== 'ready');
  if (state === 'ready' && down.length === 0) return [];
  const on = down.map((one) => one.replica).join(', ');
  const detail = `${state}${on === '' ? '' : ` on ${on}`}: ${reason ?? down[0]?.reason ?? 'no reason given'}`;
  return [(required ? failed : warning)(detail, `Mend it and codedock plugins reload ${name}.`)];
}

async function fetchJson(url: string, apiKey: string | undefined): Promise<unknown> {
  const response = await fetch(url, {
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: { connection: 'close', ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }) },
  }).catch((error: Error) => {
    throw new Error(
      `it does not answer (${(error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.message})`,
    );
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  throw new Error(`it answers ${response.status}: ${text.slice(0, 300)}`);
}
