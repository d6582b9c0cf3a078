/** Program that adds one file under many names: `add-models.ts STORE FILE PREFIX COUNT`. */
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { ModelStore } from '../../src/models/store/store.ts';

const [dir, file, prefix, count] = process.argv.slice(2) as [string, string, string, string];
const store = new ModelStore({ dir, builtinPath: builtinModelPath() });
for (let number = 0; number < Number(count); number += 1) await store.add(file, { name: `${prefix}-${number}` });
