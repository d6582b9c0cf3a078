/** Reads an answer up to its first text, and throws if it ends before. The answer can be read on. */
export async function firstText(answer: AsyncIterator<{ readonly type: string }>): Promise<void> {
  for (;;) {
    const { done, value } = await answer.next();
    if (done === true) throw new Error('the answer ended without a text');
    if (value.type === 'text') return;
  }
}
