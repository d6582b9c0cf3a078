import { readFileSync } from 'node:fs';
import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

/**
 * Folder or file under src/ → what it may import besides itself. test/architecture checks the same table, more closely.
 */
const { src: LAYERS } = JSON.parse(readFileSync(new URL('test/architecture/layers.json', import.meta.url), 'utf8'));

/** The rule for one row of the table: relative imports that lead into another layer must be in its list. */
function layerRule(place) {
  const escape = (path) => path.replaceAll('.', '\\.') + (path.endsWith('.ts') ? '$' : '/');
  const owners = Object.keys(LAYERS).filter((key) => place === key || place.startsWith(`${key}/`));
  const folder = owners[0];
  const allowed = [folder, ...owners.flatMap((key) => LAYERS[key])].map(escape).join('|');
  const anyLayer = [...new Set(Object.keys(LAYERS).map((key) => key.split('/')[0]))].join('|');
  return {
    files: [place.endsWith('.ts') ? `src/${place}` : `src/${place}/**`],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          paths: [
            { name: 'node:process', message: 'Use the global; process/environment.ts alone reads the environment.' },
          ],
          patterns: [
            {
              regex: `^(?:\\.\\./)+(?=(?:${anyLayer})/)(?!${allowed})`,
              message: `src/${place} may not know this: see test/architecture/layers.json.`,
            },
          ],
        },
      ],
    },
  };
}

const banned = {
  env: { object: 'process', property: 'env', message: 'src/process/environment.ts alone reads the environment.' },
  exit: {
    object: 'process',
    property: 'exit',
    message: 'Only src/cli/terminal/output.ts and the entry files end the process.',
  },
  stdout: {
    object: 'process',
    property: 'stdout',
    message: 'src/cli/terminal/output.ts alone writes to the terminal.',
  },
  stderr: {
    object: 'process',
    property: 'stderr',
    message: 'src/cli/terminal/output.ts alone writes to the terminal.',
  },
};
const allBut = (...names) => [
  'error',
  ...Object.keys(banned)
    .filter((name) => !names.includes(name))
    .map((name) => banned[name]),
];

/** What the length of a file or function is counted in. test/architecture/native.test.ts counts C++ alike. */
const CODE_LINES = { skipBlankLines: true, skipComments: true };

const nodeGlobals = Object.fromEntries(
  ['process', 'console', 'Buffer', 'URL', 'AbortController', 'AbortSignal', 'performance', 'fetch']
    .concat(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'])
    .map((name) => [name, 'readonly']),
);

export default defineConfig(
  { ignores: ['node_modules', 'build', 'dist', 'models'] },
  js.configs.recommended,
  { languageOptions: { globals: nodeGlobals }, linterOptions: { reportUnusedDisableDirectives: 'error' } },
  { files: ['bin/*.cjs'], languageOptions: { globals: { __dirname: 'readonly' } } },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
      '@typescript-eslint/no-unused-vars': ['error', { ignoreRestSiblings: true, varsIgnorePattern: '^_' }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      // Code points are what is counted and cut.
      '@typescript-eslint/no-misused-spread': ['error', { allow: ['string'] }],
      // Interfaces here are written with methods and taken apart by destructuring; none of them reads `this`.
      '@typescript-eslint/unbound-method': 'off',
      'no-restricted-syntax': ['error', { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' }],
      eqeqeq: 'error',
    },
  },
  {
    files: ['console/**'],
    // TypeScript knows the names of a browser.
    rules: { 'no-console': 'error', 'no-undef': 'off' },
  },
  {
    files: ['src/**'],
    rules: { 'no-console': 'error', 'no-restricted-properties': allBut() },
  },
  { files: ['src/process/environment.ts'], rules: { 'no-restricted-properties': allBut('env') } },
  { files: ['src/cli/terminal/output.ts'], rules: { 'no-restricted-properties': allBut('exit', 'stdout', 'stderr') } },
  {
    files: ['src/cli/main.ts', 'src/engine/main.ts'],
    rules: { 'no-restricted-properties': allBut('exit'), 'no-console': 'off' },
  },
  {
    files: ['test/**/*.ts', 'scripts/**/*.ts', 'bench/**/*.ts'],
    rules: {
      // Indexing typed arrays, and values that the line before has asserted.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Parsed JSON is looked into; a wrong shape fails the assertion.
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      // Scripted stand-ins keep the shape of what they stand in for.
      '@typescript-eslint/require-await': 'off',
      'require-yield': 'off',
      'no-control-regex': 'off',
      'no-regex-spaces': 'off',
    },
  },
  {
    files: ['**/*.ts', '**/*.tsx', '**/*.js', '**/*.cjs'],
    rules: {
      'max-lines': ['error', { max: 400, ...CODE_LINES }],
      'max-lines-per-function': ['error', { max: 60, ...CODE_LINES }],
    },
  },
  ...Object.keys(LAYERS).map(layerRule),
);
