/** The registry and credential of the user's npm config. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { npmRegistry, parseNpmrc } from '../../src/gpu/npm-config.ts';
import { makeHome, type Home } from '../support/home.ts';

const test = suite<{ home: Home; saved: Record<string, string | undefined> }>('npm config');
const NAMES = ['REGISTRY', 'USERCONFIG', 'GLOBALCONFIG'].flatMap((name) => [
  `NPM_CONFIG_${name}`,
  `npm_config_${name.toLowerCase()}`,
]);

test.before.each(async (context) => {
  context.home = await makeHome();
  context.saved = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]));
  for (const name of NAMES) Reflect.deleteProperty(process.env, name);
});
test.after.each(async ({ home, saved }) => {
  for (const [name, value] of Object.entries(saved)) {
    if (value === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
  Reflect.deleteProperty(process.env, 'SVC_TEST_NPM_TOKEN');
  await home.remove();
});

function write(home: Home, user: string, global = ''): void {
  const [userFile, globalFile] = [join(home.dir, 'user'), join(home.dir, 'global')];
  writeFileSync(userFile, user);
  writeFileSync(globalFile, global);
  process.env['NPM_CONFIG_USERCONFIG'] = userFile;
  process.env['NPM_CONFIG_GLOBALCONFIG'] = globalFile;
}

test("the user's file goes before the global one, a scope's registry before both, a variable before the files", async ({
  home,
}) => {
  write(home, 'registry = https://user.example/npm', 'registry=https://global.example/\ncafile="/ca.pem"');
  assert.is((await npmRegistry('@scope')).url.href, 'https://user.example/npm/');
  assert.is((await npmRegistry('@scope')).cafile, '/ca.pem');
  process.env['npm_config_registry'] = 'https://variable.example';
  assert.is((await npmRegistry('@scope')).url.href, 'https://variable.example/');
  write(home, '@scope:registry=https://scope.example/');
  assert.is((await npmRegistry('@scope')).url.href, 'https://scope.example/');
});

test("a token is taken from the file's line for the registry, and from the variable that it names", async ({
  home,
}) => {
  process.env['SVC_TEST_NPM_TOKEN'] = 't0ken';
  write(
    home,
    [
      'registry=https://npm.example/company/all/',
      '//npm.example/company/:_authToken=${SVC_TEST_NPM_TOKEN}',
      '//other.example/:_authToken=wrong',
    ].join('\n'),
  );
  const { credential } = await npmRegistry('@scope');
  assert.equal(credential, { origin: 'https://npm.example', token: 't0ken' });
  write(home, 'registry=https://npm.example:8443/\n//npm.example:8443/:_auth=dXNlcjpwYXNz');
  const basic = (await npmRegistry('@scope')).credential;
  assert.equal(basic, { origin: 'https://npm.example:8443', token: 'dXNlcjpwYXNz', scheme: 'Basic' });
});

test('a registry that is no http(s) URL, or has a password in it, is refused without being repeated', async ({
  home,
}) => {
  for (const url of ['ftp://a.example/', 'nonsense', 'https://user:hunter2@a.example/']) {
    write(home, `registry=${url}`);
    const error = await npmRegistry('@scope').catch((thrown: unknown) => thrown);
    assert.match(String(error), /not an http\(s\) URL/);
    assert.not.match(String(error), 'hunter2');
  }
});

test('comments, quotes and unset variables', () => {
  const text = '; a comment\n# another\n\na = "1"\nb=${NONE}\nc\n  d  =  2  \r\n';
  assert.equal(
    parseNpmrc(text, () => undefined),
    [
      ['a', '1'],
      ['b', '${NONE}'],
      ['d', '2'],
    ],
  );
});

test.run();
