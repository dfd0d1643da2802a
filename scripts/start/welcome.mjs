/** What a person needs after the start: address, key, and three requests that work as they stand. */
export function openingLines({ url, key }) {
  const auth = `-H "authorization: Bearer ${key}"`;
  return [
    '',
    `url  ${url}`,
    `key  ${key}`,
    '',
    'try it:',
    `  SESSION=$(curl -s ${url}/v1/sessions ${auth} -H 'content-type: application/json' -d '{}' | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')`,
    `  curl -s ${url}/v1/sessions/$SESSION/runs ${auth} -H 'content-type: application/json' -d '{"content":"hello, my key is AKIAIOSFODNN7EXAMPLE"}'`,
    `  curl -sN ${url}/v1/sessions/$SESSION/events ${auth}`,
    '',
    `API: ${url}/openapi.json   Ctrl-C stops everything.`,
    '',
  ].join('\n');
}
