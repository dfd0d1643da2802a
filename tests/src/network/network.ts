import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer, type Server, Socket } from 'node:net';
import { promisify } from 'node:util';

const run = promisify(execFile);

// By path: packages install a program of that name as well, and npm puts those first.
const nftables = ['/usr/sbin/nft', '/sbin/nft', '/usr/bin/nft'].find((file) => existsSync(file));

/** A machine of the test's own network: a network namespace with one address. */
export interface Host {
  readonly name: string;
  readonly address: string;
  /** Command and first arguments that run a program there. */
  readonly enter: readonly [string, ...string[]];
}

/** A network of hosts behind one bridge, which packets can be kept from crossing. */
export interface Network {
  /** Address of this machine on the bridge. */
  readonly gateway: string;
  addHost(name: string, number: number): Promise<Host>;
  /** A port of this machine on the bridge that goes on to a local one. Answers its number. */
  forward(port: number): Promise<number>;
  /** From now on no packet gets from one to the other, in neither direction, and none is answered: a black hole. */
  cut(host: Host, addresses: readonly string[]): Promise<void>;
  /** Lets everything through to `host` again. */
  heal(host: Host): Promise<void>;
  remove(): Promise<void>;
}

/** Why there can be no such network here; undefined when there can. */
export async function networkMissing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'only root may make network namespaces';
  const ip = await run('ip', ['-V']).then(
    () => true,
    () => false,
  );
  if (!ip || nftables === undefined) return 'no ip or no nft here (Debian: apt install iproute2 nftables)';
  const name = `cdk-probe-${process.pid}`;
  try {
    await run('ip', ['netns', 'add', name]);
    await run('ip', ['netns', 'delete', name]);
  } catch (error) {
    return `network namespaces cannot be made here: ${String((error as { stderr?: string }).stderr).trim()}`;
  }
  return undefined;
}

/** Makes an empty network. Remove it in `afterAll`. */
export async function createNetwork(): Promise<Network> {
  const id = process.pid % 250;
  const bridge = `cdk${id}`;
  const at = (number: number) => `10.231.${id}.${number}`;
  const gateway = at(1);
  const ip = (...args: readonly string[]) => run('ip', args);
  await ip('link', 'add', bridge, 'type', 'bridge');
  await ip('addr', 'add', `${gateway}/24`, 'dev', bridge);
  await ip('link', 'set', bridge, 'up');

  const hosts: Host[] = [];
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  const nft = async (host: Host, rules: string) => {
    await run('ip', ['netns', 'exec', host.name, nftables as string, rules]);
  };

  return {
    gateway,
    async addHost(name, number) {
      const host: Host = {
        name: `${bridge}-${name}`,
        address: at(number),
        enter: ['ip', 'netns', 'exec', `${bridge}-${name}`],
      };
      const link = `${bridge}v${number}`;
      await ip('netns', 'add', host.name);
      hosts.push(host);
      await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host.name);
      await ip('link', 'set', link, 'master', bridge, 'up');
      await ip('-n', host.name, 'addr', 'add', `${host.address}/24`, 'dev', 'eth0');
      await ip('-n', host.name, 'link', 'set', 'eth0', 'up');
      await ip('-n', host.name, 'link', 'set', 'lo', 'up');
      await nft(host, 'add table inet cut');
      await nft(host, 'add chain inet cut in { type filter hook input priority 0; policy accept; }');
      await nft(host, 'add chain inet cut out { type filter hook output priority 0; policy accept; }');
      return host;
    },
    async forward(port) {
      const server = createServer((near) => {
        const far = new Socket();
        for (const socket of [near, far]) {
          sockets.add(socket);
          socket.on('error', () => undefined);
          socket.on('close', () => {
            sockets.delete(socket);
            near.destroy();
            far.destroy();
          });
        }
        far.connect(port, '127.0.0.1');
        near.pipe(far);
        far.pipe(near);
      });
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, gateway, resolve));
      return (server.address() as { port: number }).port;
    },
    async cut(host, addresses) {
      for (const address of addresses) {
        await nft(host, `add rule inet cut in ip saddr ${address} drop`);
        await nft(host, `add rule inet cut out ip daddr ${address} drop`);
      }
    },
    async heal(host) {
      await nft(host, 'flush chain inet cut in');
      await nft(host, 'flush chain inet cut out');
    },
    async remove() {
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
      for (const host of hosts) await ip('netns', 'delete', host.name);
      await ip('link', 'delete', bridge);
    },
  };
}
