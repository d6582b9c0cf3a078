/** Chooses the files of a repository that make up the requested model. */
import { SvcError } from '../../protocol/errors.ts';
import { suggest } from '../../protocol/suggest.ts';

/** A file of a repository, as its hub lists it. */
export interface ListedFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** `sha256:…`; null: the hub reports none. */
  readonly digest: string | null;
}

export interface Choice {
  /** The files in order; more than one for a model in parts. */
  readonly weights: readonly ListedFile[];
  /** The projector that a vision model needs. */
  readonly projector: ListedFile | null;
  /**
   * The quantisation in the file names, in upper case; the file's name if there is no quantisation in it, or several
   * models have the same one.
   */
  readonly label: string;
}

export interface Wanted {
  readonly file: string | null;
  readonly quantization: string | null;
}

export interface Candidate {
  readonly files: readonly ListedFile[];
  /** The file name without folder, part number and extension. */
  readonly stem: string;
  readonly label: string | null;
}

/** Quantisations in order of preference. Below Q4_K_M the loss of quality is noticeable, above it the gain is not. */
const PREFERRED = [
  'Q4_K_M',
  'Q4_K_XL',
  'Q4_K_S',
  'Q4_0',
  'IQ4_XS',
  'IQ4_NL',
  'MXFP4',
  'Q5_K_M',
  'Q5_K_S',
  'Q6_K',
  'Q8_0',
];
const PREFERRED_PROJECTORS = ['F16', 'BF16', 'Q8_0', 'F32'];

const LABEL = /(?:^|[-._])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|FP?16|FP?32))(?=$|[-._])/gi;
const PART = /^(.*)-(\d{5})-of-(\d{5})$/;

/** @throws SvcError MODEL_NOT_FOUND; INVALID_REQUEST when several models match */
export function chooseFiles(repo: string, files: readonly ListedFile[], wanted: Wanted): Choice {
  const models = files.filter(({ path }) => /\.gguf$/i.test(path) && !/imatrix/i.test(path));
  const candidates = candidatesOf(models.filter((file) => !isProjector(file)));
  if (candidates.length === 0) {
    throw new SvcError('MODEL_NOT_FOUND', `${repo} has no GGUF files`, {
      hint: `search for a repository with GGUF files: svc model search ${repo.split('/')[1] ?? ''} gguf`,
      param: 'model',
    });
  }
  const chosen = chosenOf(repo, candidates, wanted);
  const { files: weights, label } = chosen;
  checkParts(repo, weights);
  const twins = candidates.filter((each) => each.label === label);
  return {
    weights,
    projector: projectorOf(models, weights),
    label: label === null || twins.length > 1 ? nameAmong(twins, chosen) : label,
  };
}

/** Returns the file's name, with its folder if another of `twins` has the same name. */
function nameAmong(twins: readonly Candidate[], { files, stem }: Candidate): string {
  if (twins.filter((each) => each.stem.toLowerCase() === stem.toLowerCase()).length === 1) return stem;
  const folders = files[0]?.path.split('/').slice(0, -1) ?? [];
  return [...folders, stem].join('/');
}

function chosenOf(repo: string, candidates: readonly Candidate[], { file, quantization }: Wanted): Candidate {
  if (file !== null) {
    const found = candidates.find(({ files }) => files.some(({ path }) => path === file));
    if (found !== undefined) return found;
    const likely = suggest(
      file,
      candidates.flatMap(({ files }) => files.map(({ path }) => path)),
    );
    throw new SvcError('MODEL_NOT_FOUND', `${repo} has no file ${file}`, {
      hint: likely === undefined ? `it has ${listed(namesOf(candidates))}` : `did you mean ${likely}?`,
      param: 'model',
    });
  }
  const labels = quantization === null ? PREFERRED : [quantization.toUpperCase()];
  for (const label of labels) {
    const found = candidates.filter((each) => [each.label, each.label?.replace(/^UD-/, '')].includes(label));
    // Prefer the plain label over one with the prefix UD-.
    const exact = found.filter((each) => each.label === label);
    const [only, ...others] = exact.length > 0 ? exact : found;
    if (only === undefined) continue;
    if (others.length > 0) throw ambiguous(repo, [only, ...others]);
    return only;
  }
  const [only, ...others] = candidates;
  if (quantization === null && only !== undefined) {
    if (others.length === 0) return only;
    throw ambiguous(repo, candidates);
  }
  throw new SvcError('MODEL_NOT_FOUND', `${repo} has no ${quantization ?? ''}`, {
    hint: `it has ${listed(namesOf(candidates))}`,
    param: 'model',
  });
}

/** Groups files into models: the parts of one belong together. */
export function candidatesOf(files: readonly ListedFile[]): Candidate[] {
  const groups = new Map<string, ListedFile[]>();
  for (const file of files) {
    const [, whole, , count] = PART.exec(file.path.replace(/\.gguf$/i, '')) ?? [];
    const key = whole === undefined ? file.path : `${whole} of ${count ?? ''}`;
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  return Array.from(groups.values(), (group) => {
    const sorted = group.sort((a, b) => (a.path < b.path ? -1 : 1));
    const name =
      (sorted[0]?.path ?? '')
        .split('/')
        .at(-1)
        ?.replace(/\.gguf$/i, '') ?? '';
    const stem = PART.exec(name)?.[1] ?? name;
    return { files: sorted, stem, label: labelOf(stem) };
  });
}

/** Returns the last label in the name: the model's own name may contain one, too. */
function labelOf(name: string): string | null {
  const labels = Array.from(name.matchAll(LABEL), ([, label = '']) => label.toUpperCase());
  return labels.at(-1)?.replace(/^FP/, 'F') ?? null;
}

export function isProjector({ path }: ListedFile): boolean {
  return /mmproj/i.test(path.split('/').at(-1) ?? '');
}

/** The projector for the weights: in their folder, or in the root of the repository. */
export function projectorOf(models: readonly ListedFile[], weights: readonly ListedFile[]): ListedFile | null {
  const folder = (path: string): string => path.split('/').slice(0, -1).join('/');
  const home = folder(weights[0]?.path ?? '');
  const found = models.filter((file) => isProjector(file) && ['', home].includes(folder(file.path)));
  const rank = (file: ListedFile): number => {
    const index = PREFERRED_PROJECTORS.indexOf(labelOf(file.path.replace(/\.gguf$/i, '')) ?? '');
    return index === -1 ? PREFERRED_PROJECTORS.length : index;
  };
  return found.sort((a, b) => rank(a) - rank(b))[0] ?? null;
}

function checkParts(repo: string, weights: readonly ListedFile[]): void {
  const parts = weights.map(({ path }) => PART.exec(path.replace(/\.gguf$/i, '')));
  const count = Number(parts[0]?.[3] ?? 1);
  const isWhole =
    weights.length === count && parts.every((part, index) => part === null || Number(part[2]) === index + 1);
  if (isWhole) return;
  throw new SvcError('MODEL_NOT_FOUND', `${repo} has ${weights.length} of the ${count} parts of this model`, {
    hint: 'the repository is incomplete; search for another: svc model search',
    param: 'model',
  });
}

function namesOf(candidates: readonly Candidate[]): string[] {
  return [...new Set(candidates.map(({ label, stem }) => label ?? stem))];
}

function ambiguous(repo: string, candidates: readonly Candidate[]): SvcError {
  const [first = ''] = candidates.map(({ files }) => files[0]?.path);
  return new SvcError('INVALID_REQUEST', `${repo} has several matching models`, {
    hint: `name the file: svc model pull hf:${repo}:${first} (there are ${listed(candidates.map(({ files }) => files[0]?.path ?? ''))})`,
    param: 'model',
  });
}

function listed(names: readonly string[]): string {
  const MOST = 24;
  return names.length <= MOST ? names.join(', ') : `${names.slice(0, MOST).join(', ')} and ${names.length - MOST} more`;
}
