/** `svc model quantize`. Ctrl-C ends the quantising process; nothing is kept. */
import { quantizeFile } from '../../../engine/quantize-file.ts';
import { quantizeModel } from '../../../models/store/quantize.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import type { QuantizeEvent } from '../../../protocol/model/quantize.ts';
import { ByteProgress } from '../../terminal/byte-progress.ts';
import { jsonLinesFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { bytes } from '../../terminal/format.ts';
import { cancellable } from '../../machine/cancellable.ts';
import { modelName } from '../../machine/model-name.ts';
import { openStore } from '../../machine/models.ts';
import { printJsonLine, say } from '../../terminal/output.ts';
import { printText } from '../../terminal/result.ts';

export const spec = {
  summary: 'Make a smaller, faster copy of a model',
  detail: [
    'TYPE is a quantisation such as Q8_0, Q6_K or Q4_K_M; the best source is a model in F16 or BF16. The copy is added to the store under its own id; the source model is not changed. Ctrl-C leaves nothing behind.',
  ],
  arguments: [modelArgument, { name: 'type', required: true }],
  flags: {
    name: { kind: 'string', value: 'ID', summary: "id of the copy; otherwise made from the model's id and the type" },
    'allow-requantize': {
      kind: 'switch',
      summary: 'accept a source that is already quantised, at a loss of quality',
    },
    json: jsonLinesFlag,
  },
  examples: ['svc model quantize qwen-f16 Q4_K_M', 'svc model quantize qwen-f16 q8_0 --name qwen-q8 --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (flags, { model, type }) => {
  const { name, json } = flags;
  const wishes = {
    model: modelName(model),
    type,
    ...given({ name }),
    allow_requantize: flags['allow-requantize'],
  };
  const show = json ? printJsonLine : shower();
  const made = await cancellable(new SvcError('CANCELLED', 'cancelled; nothing was kept'), (signal) =>
    quantizeModel(openStore(), wishes, quantizeFile, show, signal),
  );
  if (!json) printText(`created ${made.id} (${bytes(made.size_bytes)}); try it: svc run -m ${made.id} "Hello"`);
};

function shower(): (event: QuantizeEvent) => void {
  const progress = { quantizing: new ByteProgress('quantising'), checking: new ByteProgress('checking') };
  return (event) => {
    if (event.type === 'planned') {
      const { model, source, source_bytes, expected_bytes } = event;
      say(`creating ${model} from ${source} (${bytes(source_bytes)} to ${bytes(expected_bytes)})`);
    } else if (event.type === 'progress') {
      progress[event.stage].show(event);
    }
  };
}
