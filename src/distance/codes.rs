//! One small integer per node pair into the list of distinct distance tuples.
//!
//! A batch of molecules has millions of pairs but only tens to hundreds of distinct rows
//! (d⁰, …, d^K). The [`Codebook`] holds these rows once, in lexicographic order, so that it depends
//! on the set of tuples alone; [`Codes`] refers to them by `u16`, or by `u32` past 65,535 rows. A
//! bias evaluated on the codebook and gathered by code is exact, not an approximation.

use super::Distances;

/// Distinct distance tuples, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codebook {
    width: usize,
    rows: Vec<u8>, // [rows, width]
}

impl Codebook {
    /// Number of distinct tuples.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Whether there is no tuple.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Distances per tuple, K + 1.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The tuple (d⁰, …, d^K) of `code`.
    pub fn row(&self, code: u32) -> &[u8] {
        &self.rows[code as usize * self.width..][..self.width]
    }

    /// All tuples, one after another: `[rows, K + 1]`.
    pub fn rows(&self) -> &[u8] {
        &self.rows
    }

    /// The sorted union of several codebooks of one width.
    fn union(width: usize, books: &[&Codebook]) -> Codebook {
        let mut all: Vec<&[u8]> = books.iter().flat_map(|b| b.rows.chunks_exact(width)).collect();
        all.sort_unstable();
        all.dedup();
        Codebook { width, rows: all.concat() }
    }

    /// Code here of every row of `part`, all of whose rows are here.
    fn positions(&self, part: &Codebook) -> Vec<u32> {
        let mut code = 0;
        let find = |row: &[u8]| {
            while self.row(code) != row {
                code += 1;
            }
            code
        };
        part.rows.chunks_exact(self.width).map(find).collect()
    }
}

/// A code per node pair, row by row, graph after graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    codebook: Codebook,
    values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Codes {
    /// The codes of all pairs of one graph.
    pub fn new(distances: &Distances) -> Codes {
        Codes::from_tuples(&distances.lifted(), distances.levels() + 1)
    }

    /// The codes of given tuples, `[pairs, width]`.
    pub fn from_tuples(tuples: &[u8], width: usize) -> Codes {
        const NEW: u32 = u32::MAX;
        // Refine level by level: (code of the first k distances, next distance) → code of k + 1.
        let mut codes = vec![0u32; tuples.len() / width];
        let mut rows: Vec<Vec<u8>> = vec![Vec::new()];
        for level in 0..width {
            let mut table = vec![NEW; rows.len() * 256];
            let mut longer = Vec::new();
            for (code, tuple) in codes.iter_mut().zip(tuples.chunks_exact(width)) {
                let slot = &mut table[*code as usize * 256 + tuple[level] as usize];
                if *slot == NEW {
                    *slot = longer.len() as u32;
                    longer.push([&rows[*code as usize][..], &[tuple[level]]].concat());
                }
                *code = *slot;
            }
            rows = longer;
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by_key(|&code| &rows[code as usize]);
        let mut rank = vec![0; rows.len()];
        for (new, &old) in order.iter().enumerate() {
            rank[old as usize] = new as u32;
        }
        let rows = order.iter().flat_map(|&code| rows[code as usize].iter().copied()).collect();
        let codes = codes.into_iter().map(|code| rank[code as usize]);
        Codes::assemble(Codebook { width, rows }, codes)
    }

    /// The codes of a batch: pairs of all graphs in order, one codebook.
    ///
    /// # Panics
    /// If the graphs have different numbers of levels.
    pub fn merge(graphs: &[&Codes]) -> Codes {
        let width = graphs.first().map_or(1, |c| c.codebook.width);
        assert!(graphs.iter().all(|c| c.codebook.width == width), "equal numbers of levels");
        let codebook =
            Codebook::union(width, &graphs.iter().map(|c| &c.codebook).collect::<Vec<_>>());
        let codes: Vec<u32> = graphs
            .iter()
            .flat_map(|graph| {
                let position = codebook.positions(&graph.codebook);
                graph.iter().map(move |code| position[code as usize])
            })
            .collect();
        Codes::assemble(codebook, codes.into_iter())
    }

    fn assemble(codebook: Codebook, codes: impl Iterator<Item = u32>) -> Codes {
        let values = if codebook.len() <= usize::from(u16::MAX) {
            Values::Narrow(codes.map(|code| code as u16).collect())
        } else {
            Values::Wide(codes.collect())
        };
        Codes { codebook, values }
    }

    /// The distinct tuples that codes refer to.
    pub fn codebook(&self) -> &Codebook {
        &self.codebook
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Narrow(v) => v.len(),
            Values::Wide(v) => v.len(),
        }
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the codes and of the tuples they refer to.
    pub fn bytes(&self) -> u128 {
        let codes = match &self.values {
            Values::Narrow(v) => size_of_val(&v[..]),
            Values::Wide(v) => size_of_val(&v[..]),
        };
        (codes + self.codebook.rows.len()) as u128
    }

    /// Code of one pair.
    pub fn get(&self, pair: usize) -> u32 {
        match &self.values {
            Values::Narrow(v) => u32::from(v[pair]),
            Values::Wide(v) => v[pair],
        }
    }

    /// Codes of all pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).map(|pair| self.get(pair))
    }

    /// The codes, if they fit 16 bits: at most 65,535 distinct tuples.
    pub fn as_u16(&self) -> Option<&[u16]> {
        match &self.values {
            Values::Narrow(v) => Some(v),
            Values::Wide(_) => None,
        }
    }

    /// The codes where they need 32 bits.
    pub fn as_u32(&self) -> Option<&[u32]> {
        match &self.values {
            Values::Narrow(_) => None,
            Values::Wide(v) => Some(v),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuples(codes: &Codes) -> Vec<u8> {
        codes.iter().flat_map(|code| codes.codebook().row(code).to_vec()).collect()
    }

    #[test]
    fn codes_give_back_their_tuples() {
        let given = [3, 1, 0, 0, 255, 255, 3, 1, 3, 0];
        let codes = Codes::from_tuples(&given, 2);
        assert_eq!(codes.codebook().rows(), [0, 0, 3, 0, 3, 1, 255, 255]);
        assert_eq!(codes.as_u16().unwrap(), [2, 0, 3, 2, 1]);
        assert_eq!(tuples(&codes), given);
    }

    #[test]
    fn merging_equals_coding_at_once() {
        let (a, b, c) = ([1u8, 2, 9, 9], [0u8, 0, 1, 2], [9u8, 8]);
        let parts = [&a[..], &b[..], &c[..]].map(|t| Codes::from_tuples(t, 2));
        let merged = Codes::merge(&parts.each_ref());
        assert_eq!(merged, Codes::from_tuples(&[&a[..], &b, &c].concat(), 2));
        assert!(Codes::merge(&[]).is_empty());
    }

    #[test]
    fn many_tuples_need_wide_codes() {
        let distinct = |count: u32| -> Vec<u8> {
            (0..count).flat_map(|i| [i as u8, (i >> 8) as u8, (i >> 16) as u8]).collect()
        };
        assert!(Codes::from_tuples(&distinct(65_535), 3).as_u16().is_some());
        let wide = Codes::from_tuples(&distinct(65_536), 3);
        assert!(wide.as_u16().is_none() && wide.as_u32().is_some_and(|v| v.len() == 65_536));
        assert_eq!(tuples(&wide), distinct(65_536));
        let half = |range: std::ops::Range<usize>| {
            Codes::from_tuples(&distinct(70_000)[range.start * 3..range.end * 3], 3)
        };
        let merged = Codes::merge(&[&half(0..40_000), &half(40_000..70_000)]);
        assert_eq!(merged, Codes::from_tuples(&distinct(70_000), 3));
    }
}
