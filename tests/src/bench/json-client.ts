import http from 'node:http';

/** A client of one gateway over connections it keeps. */
export class JsonClient {
  private readonly agent = new http.Agent({ keepAlive: true, maxSockets: 128 });

  constructor(
    private readonly url: string,
    private readonly key: string,
  ) {}

  /** POSTs JSON. @throws Error for any status but 201. */
  post<T>(path: string, body: object): Promise<T> {
    return new Promise((resolve, reject) => {
      const text = JSON.stringify(body);
      const headers = {
        authorization: `Bearer ${this.key}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
      };
      const request = http.request(`${this.url}${path}`, { method: 'POST', agent: this.agent, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const answer = Buffer.concat(chunks).toString('utf8');
          if (response.statusCode === 201) resolve(JSON.parse(answer) as T);
          else reject(new Error(`POST ${path}: ${response.statusCode} ${answer.slice(0, 500)}`));
        });
      });
      request.on('error', reject);
      request.end(text);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}
