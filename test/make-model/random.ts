/** Random weights from a seed, the same on every machine: only integers and exactly rounded operations are used. */

/** Number of values made and encoded at a time; a longer row is a piece by itself. */
const PIECE_VALUES = 256 * 1024;
/** Mean, and (below) standard deviation, of a sum of four random bytes. */
const SUM_MEAN = 510;
const SUM_DEVIATION = Math.sqrt((4 * (256 * 256 - 1)) / 12);

export interface RandomRows {
  readonly name: string;
  readonly rows: number;
  readonly rowLength: number;
  readonly mean: number;
  readonly deviation: number;
  /** Factor for each row; default 1. */
  readonly rowScale?: (row: number) => number;
}

/** Yields whole rows in pieces. `name` selects the random sequence, so that tensors differ. */
export function* randomRows({ name, rows, rowLength, mean, deviation, rowScale }: RandomRows): Iterable<Float32Array> {
  const next = generator(name);
  const unit = deviation / SUM_DEVIATION;
  const pieceRows = Math.max(1, Math.floor(PIECE_VALUES / rowLength));
  for (let start = 0; start < rows; start += pieceRows) {
    const count = Math.min(pieceRows, rows - start);
    const piece = new Float32Array(count * rowLength);
    for (let row = 0, index = 0; row < count; row += 1) {
      const scale = rowScale?.(start + row) ?? 1;
      for (const end = index + rowLength; index < end; index += 1) {
        const word = next();
        const sum = (word & 255) + ((word >>> 8) & 255) + ((word >>> 16) & 255) + (word >>> 24);
        piece[index] = (mean + (sum - SUM_MEAN) * unit) * scale;
      }
    }
    yield piece;
  }
}

/** Mulberry32, seeded with FNV-1a of the name. */
function generator(name: string): () => number {
  let state = 0x811c_9dc5;
  for (const byte of Buffer.from(name)) state = Math.imul(state ^ byte, 0x0100_0193);
  return () => {
    state = (state + 0x6d2b_79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), 1 | state);
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
    return (word ^ (word >>> 14)) >>> 0;
  };
}
