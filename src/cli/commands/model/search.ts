import { hubEnvironment } from '../../../config/hub.ts';
import { catalogue, estimatedBytes, searchCatalogue, type CatalogueEntry } from '../../../models/pull/catalogue.ts';
import type { HubModel } from '../../../models/pull/hub.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { bytes, count, text } from '../../terminal/format.ts';
import { table } from '../../terminal/layout.ts';
import { out, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

const MOST_OF_HUB = 20;
const HUB_MS = 10_000;

export const spec = {
  summary: 'Search for models to pull',
  detail: ['Searches the catalogue that comes with svc and, if words are given, the Hugging Face hub.'],
  arguments: [{ name: 'words', required: false }],
  flags: { local: { kind: 'switch', summary: 'do not search the hub' }, json: jsonFlag },
  examples: ['svc model search', 'svc model search code', 'svc model search "mistral instruct" --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json, local }, { words = '' }) => {
  const known = searchCatalogue(words);
  const hub = local || words === '' ? [] : await askHub(words);
  const catalogued = known.map((entry) => ({ ...entry, estimated_bytes: sizeOf(entry) }));
  const found = [...(known.length > 0 ? [ofCatalogue(known)] : []), ...(hub.length > 0 ? [ofHub(hub)] : [])];
  const record = { catalogue_date: catalogue().date, catalogue: catalogued, hub };
  printResult(json, record, found.join('\n\n') || 'no models found');
};

/** Searches the hub. An error is reported on standard error; the catalogue is shown all the same. */
async function askHub(words: string): Promise<readonly HubModel[]> {
  const settings = hubEnvironment();
  if (settings.is_offline) return [];
  const { Hub } = await import('../../../models/pull/hub.ts');
  const { Web } = await import('../../../models/pull/web.ts');
  const web = new Web({ stallMs: HUB_MS });
  try {
    return await new Hub(web, settings).search(words, MOST_OF_HUB, AbortSignal.timeout(HUB_MS));
  } catch (error) {
    const { code, message } = SvcError.from(error);
    say(code === 'INTERNAL' ? 'the hub did not answer in time' : `the hub could not be searched: ${message}`);
    return [];
  } finally {
    await web.close();
  }
}

function ofCatalogue(entries: readonly CatalogueEntry[]): string {
  const rows = entries.map((entry) => [
    entry.name,
    `~${bytes(sizeOf(entry))}`,
    count(entry.context_length),
    entry.good_at,
    entry.license,
    `${String(entry.parameters_billions)}B`,
    entry.default_quantization,
  ]);
  return table(
    [['NAME', 'SIZE', 'CONTEXT', 'GOOD AT', 'LICENSE', 'PARAMETERS', 'QUANTIZATION'], ...rows],
    out.tableColumns,
  );
}

function ofHub(models: readonly HubModel[]): string {
  const rows = models.map(({ repo, downloads, license, updated_at }) => [
    `hf:${repo}`,
    count(downloads),
    text(license),
    updated_at?.slice(0, 10) ?? '-',
  ]);
  return table([['ON THE HUB', 'DOWNLOADS', 'LICENSE', 'UPDATED'], ...rows], out.tableColumns);
}

function sizeOf(entry: CatalogueEntry): number {
  return Math.round(estimatedBytes(entry, entry.default_quantization));
}
