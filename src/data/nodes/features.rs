//! Features of nodes: none, dense rows, or compressed sparse rows.
//!
//! Bags of words are nine tenths zeros and more, so what is sparse in its file stays sparse: the features of PubMed
//! are 8 MB in compressed rows and 39 MB dense.

use crate::data::{Matrix, Values};
use crate::{Error, MemoryLimit, Result};

/// Features of nodes, one row per node.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// None at all.
    None,
    /// All numbers of all rows.
    Dense(Matrix),
    /// The numbers that are not 0.
    Sparse(Sparse),
}

impl Features {
    /// Numbers in a row.
    pub fn width(&self) -> usize {
        match self {
            Features::None => 0,
            Features::Dense(matrix) => matrix.width,
            Features::Sparse(sparse) => sparse.width,
        }
    }

    /// Divides every row by its sum, where that is not 0.
    pub fn normalise(&mut self) {
        let divide = |row: &mut [f32]| {
            let sum: f32 = row.iter().sum();
            if sum != 0.0 {
                row.iter_mut().for_each(|value| *value /= sum);
            }
        };
        match self {
            Features::None => {}
            Features::Dense(matrix) => {
                let mut values = matrix.values.to_floats();
                values.chunks_mut(matrix.width.max(1)).for_each(divide);
                matrix.values = Values::Float(values);
            }
            Features::Sparse(sparse) => {
                for row in 0..sparse.rows() {
                    let range = sparse.range(row);
                    divide(&mut sparse.values[range]);
                }
            }
        }
    }

    /// The first number that is not finite: node and column.
    pub(super) fn not_finite(&self) -> Option<(usize, usize)> {
        match self {
            Features::Dense(matrix) => not_finite(matrix),
            Features::Sparse(sparse) => {
                let at = sparse.values.iter().position(|x| !x.is_finite())?;
                let row = sparse.offsets.partition_point(|&start| start <= at as u64) - 1;
                Some((row, sparse.columns[at] as usize))
            }
            Features::None => None,
        }
    }
}

/// The first number that is not finite: row and column.
pub(super) fn not_finite(matrix: &Matrix) -> Option<(usize, usize)> {
    let Values::Float(values) = &matrix.values else { return None };
    let at = values.iter().position(|x| !x.is_finite())?;
    Some((at / matrix.width, at % matrix.width))
}

/// A matrix in compressed sparse rows.
///
/// ```
/// use hdse::data::nodes::Sparse;
/// //  1 . 2
/// //  . . .
/// let matrix = Sparse::new(3, vec![0, 2, 2], vec![0, 2], vec![1.0, 2.0])?;
/// assert_eq!(matrix.row(0), (&[0, 2][..], &[1.0, 2.0][..]));
/// assert_eq!(matrix.row(1), (&[][..], &[][..]));
/// # Ok::<(), hdse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    width: usize,
    offsets: Vec<u64>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Sparse {
    /// A matrix of `width` columns: row i is what lies from `offsets[i]` to `offsets[i + 1]`.
    ///
    /// # Errors
    /// If offsets do not fit the entries, a column is out of range, or one occurs twice in a row.
    pub fn new(
        width: usize,
        offsets: Vec<u64>,
        columns: Vec<u32>,
        values: Vec<f32>,
    ) -> Result<Sparse> {
        let fits = offsets.first() == Some(&0)
            && offsets.last() == Some(&(columns.len() as u64))
            && offsets.is_sorted()
            && columns.len() == values.len();
        if !fits {
            return Err(Error::data("row offsets do not fit the entries of a sparse matrix"));
        }
        let mut sparse = Sparse { width, offsets, columns, values };
        for row in 0..sparse.rows() {
            sparse.sort_row(row)?;
        }
        Ok(sparse)
    }

    /// Puts the entries of a row in order of columns.
    fn sort_row(&mut self, row: usize) -> Result<()> {
        let range = self.range(row);
        let (columns, values) = (&mut self.columns[range.clone()], &mut self.values[range]);
        if let Some(column) = columns.iter().find(|&&column| column as usize >= self.width) {
            let width = self.width;
            return Err(Error::data(format!(
                "row {row}: column {column} is out of range for {width} columns"
            )));
        }
        if !columns.is_sorted() {
            let mut pairs: Vec<(u32, f32)> =
                columns.iter().copied().zip(values.iter().copied()).collect();
            pairs.sort_by_key(|&(column, _)| column);
            for (i, (column, value)) in pairs.into_iter().enumerate() {
                (columns[i], values[i]) = (column, value);
            }
        }
        match columns.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::data(format!("row {row}: column {} occurs twice", pair[0]))),
            None => Ok(()),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns, ascending, and values of the entries of a row.
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.range(row);
        (&self.columns[range.clone()], &self.values[range])
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// Start of every row, and the end of the last.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Columns of all entries.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Values of all entries.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All numbers of all rows.
    ///
    /// # Errors
    /// If they need more than `limit`.
    pub fn to_dense(&self, limit: MemoryLimit) -> Result<Matrix> {
        let cells = self.rows() as u128 * self.width as u128;
        limit.check(cells * 4, "dense features", "keep them sparse, or raise `--max-memory`")?;
        let mut values = vec![0.0; cells as usize];
        for row in 0..self.rows() {
            let (columns, entries) = self.row(row);
            for (&column, &value) in columns.iter().zip(entries) {
                values[row * self.width + column as usize] = value;
            }
        }
        Ok(Matrix { width: self.width, values: Values::Float(values) })
    }

    /// The rows named, in that order; nothing is a row of zeros.
    pub(super) fn gather<'a>(
        width: usize,
        rows: impl Iterator<Item = Option<(&'a Sparse, usize)>>,
    ) -> Sparse {
        let mut all = Sparse { width, offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for row in rows {
            if let Some((matrix, row)) = row {
                let (columns, values) = matrix.row(row);
                all.columns.extend(columns);
                all.values.extend(values);
            }
            all.offsets.push(all.columns.len() as u64);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_checked() {
        let new =
            |columns: &[u32]| Sparse::new(4, vec![0, 0, 3], columns.to_vec(), vec![1.0, 2.0, 3.0]);
        let sparse = new(&[3, 0, 2]).unwrap();
        assert_eq!(sparse.row(1), (&[0, 2, 3][..], &[2.0, 3.0, 1.0][..]));
        let dense = sparse.to_dense(MemoryLimit::NONE).unwrap();
        assert_eq!(dense.values.to_floats(), [0., 0., 0., 0., 2., 0., 3., 1.]);
        assert!(sparse.to_dense(MemoryLimit(31)).unwrap_err().is_memory());
        assert_eq!(
            new(&[3, 4, 2]).unwrap_err().to_string(),
            "row 1: column 4 is out of range for 4 columns"
        );
        assert_eq!(new(&[3, 0, 3]).unwrap_err().to_string(), "row 1: column 3 occurs twice");
        assert!(Sparse::new(4, vec![0, 2, 1], vec![0], vec![1.0]).is_err());
        assert!(Sparse::new(4, vec![], vec![], vec![]).is_err());
    }

    #[test]
    fn rows_are_divided_by_their_sums() {
        let sparse = Sparse::new(3, vec![0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 3.0, 5.0]).unwrap();
        let dense = sparse.to_dense(MemoryLimit::NONE).unwrap();
        let expected = [0.25, 0.0, 0.75, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        for mut features in [Features::Sparse(sparse), Features::Dense(dense)] {
            features.normalise();
            let found = match features {
                Features::Sparse(sparse) => sparse.to_dense(MemoryLimit::NONE).unwrap(),
                Features::Dense(dense) => dense,
                Features::None => panic!(),
            };
            assert_eq!(found.values.to_floats(), expected);
        }
    }

    #[test]
    fn the_first_number_that_is_not_finite_is_found() {
        let sparse =
            Sparse::new(3, vec![0, 1, 1, 3], vec![0, 1, 2], vec![1.0, 2.0, f32::NAN]).unwrap();
        assert_eq!(Features::Sparse(sparse).not_finite(), Some((2, 2)));
        let values = Values::Float(vec![1.0, 2.0, 3.0, f32::INFINITY]);
        assert_eq!(Features::Dense(Matrix { width: 2, values }).not_finite(), Some((1, 1)));
    }
}
