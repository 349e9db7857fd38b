// The arithmetic of attention on small matrices, which are lists of rows.

/** Returns the dot product of two vectors. */
export const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);

/** Returns a matrix with rows and columns exchanged. */
export const transposed = (matrix) => matrix[0].map((_, column) => matrix.map((row) => row[column]));

/** Returns the product of two matrices. */
export function product(a, b) {
  const columns = transposed(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

/** Returns the shares of scores; they sum to 1. A score of -Infinity gets 0. */
export function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}
