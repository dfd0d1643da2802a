import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(__dirname, '../..');
const files = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n');

/** The anchors of a page: its headings, as GitHub names them. */
function anchorsOf(text: string): Set<string> {
  const headings = withoutCode(text).matchAll(/^#{1,6} +(.+)$/gm);
  return new Set(
    [...headings].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  );
}

function withoutCode(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]]/g, ''));
}

/** Links of a page to files of the repository that lead nowhere. */
function brokenLinks(file: string, text: string): string[] {
  const links = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return links
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [page = '', anchor] = target.split('#');
      const linked = page === '' ? path.join(root, file) : path.resolve(root, path.dirname(file), page);
      if (!existsSync(linked)) return true;
      if (anchor === undefined || !linked.endsWith('.md')) return false;
      return !anchorsOf(page === '' ? text : readFileSync(linked, 'utf8')).has(anchor);
    });
}

test.each(files)('the links of %s lead somewhere', (file) => {
  expect(brokenLinks(file, readFileSync(path.join(root, file), 'utf8'))).toEqual([]);
});

test('links to files and headings that are not there are found', () => {
  const text =
    '[a](README.md) [b](none.md) [c](README.md#no-such-heading) [d](https://example.com) [e](#for-whom)\n\n# For whom?';
  expect(brokenLinks('README.md', text)).toEqual(['none.md', 'README.md#no-such-heading']);
});
