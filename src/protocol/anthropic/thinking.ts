/** Converts `thinking` and `output_config.effort` to our settings of the reasoning. */
import * as v from 'valibot';
import { LIMITS, type GenerateRequest } from '../generate.ts';

/** `updates`: as `omitted`, but for notes between calls, which only Anthropic's own models write as thoughts. */
const display = { display: v.nullish(v.picklist(['summarized', 'omitted', 'updates'])) };

export const ThinkingSchema = v.variant('type', [
  v.object({
    type: v.literal('enabled'),
    budget_tokens: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.contextLength)),
    ...display,
  }),
  v.object({ type: v.literal('adaptive'), ...display }),
  v.object({ type: v.literal('between_tools') }),
  v.object({ type: v.literal('disabled') }),
]);
export type Thinking = v.InferOutput<typeof ThinkingSchema>;

export const EffortSchema = v.picklist(['low', 'medium', 'high', 'xhigh', 'max']);
type Effort = v.InferOutput<typeof EffortSchema>;

type Wishes = Pick<GenerateRequest, 'reasoning_effort' | 'reasoning_budget_tokens' | 'reasoning_optional'>;

/** Effort for models that have no budget, by the budget in tokens that it needs. */
const EFFORTS = [
  [32_768, 'xhigh'],
  [16_384, 'high'],
  [8192, 'medium'],
] as const;

/**
 * All but `disabled` are optional for a model: coding agents send them to every model. Without `thinking` the model
 * decides, as after `adaptive`.
 */
export function toReasoning(thinking: Thinking | undefined, effort: Effort | undefined): Wishes {
  if (thinking?.type === 'disabled') return { reasoning_effort: 'none', reasoning_optional: true };
  const asked = effort === 'max' ? 'xhigh' : effort;
  if (thinking?.type === 'enabled') {
    const { budget_tokens: budget } = thinking;
    const enough = EFFORTS.find(([needed]) => budget >= needed)?.[1] ?? 'low';
    return { reasoning_effort: asked ?? enough, reasoning_budget_tokens: budget, reasoning_optional: true };
  }
  return asked === undefined ? {} : { reasoning_effort: asked, reasoning_optional: true };
}

/** True if the answer has the text of the model's thoughts. */
export function showsThinking(thinking: Thinking | undefined): boolean {
  if (thinking === undefined || !('display' in thinking)) return true;
  return thinking.display !== 'omitted' && thinking.display !== 'updates';
}
