//! Splits of the nodes of one graph: who trains, who chooses, who reports.
//!
//! A [`Split`] is three lists of node ids, ascending, and the blake3 of these, to stand in every table made with it.
//! They come with a set, are read from JSON (`{"train": [0, 5], "val": [1], "test": [2, 3]}`, optionally with the
//! `blake3` that they must have), or are drawn from a seed of ours:
//!
//! | name | nodes |
//! |---|---|
//! | `random-7` | 20 of every class, then 500 and 1,000 of the others (Planetoid's sizes) |
//! | `half-7` | half of all that have a target, then a quarter and a quarter (Lim et al., LINKX, NeurIPS 2021) |
//!
//! Only nodes that have a target are drawn. The same seed gives the same split on every machine.

use serde::{Deserialize, Serialize};

use crate::data::sets::SPLITS;
use crate::rng::Seed;
use crate::{Error, Result};

/// Nodes of every class for training in `random-…`, nodes for validation and test.
const RANDOM: (usize, usize, usize) = (20, 500, 1000);

/// Which nodes are for training, validation and test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// What it is chosen by.
    pub name: String,
    /// Nodes to train on, ascending.
    pub train: Vec<u32>,
    /// Nodes to choose by, ascending.
    pub val: Vec<u32>,
    /// Nodes to report, ascending.
    pub test: Vec<u32>,
    /// blake3 of the three lists, in hexadecimal.
    pub blake3: String,
}

/// A split as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    #[serde(default)]
    name: Option<String>,
    train: Vec<u32>,
    #[serde(alias = "valid")]
    val: Vec<u32>,
    test: Vec<u32>,
    #[serde(default)]
    blake3: Option<String>,
}

impl Split {
    /// A split of these nodes among `nodes`, for training, validation and test.
    ///
    /// # Errors
    /// If a node is out of range or listed twice, or there is none to train on.
    pub fn new(name: impl Into<String>, parts: [Vec<u32>; 3], nodes: usize) -> Result<Split> {
        let name = name.into();
        let mut split_of: Vec<u8> = vec![0; nodes];
        let wrong = |why: String| Err(Error::data(format!("split `{name}`: {why}")));
        for (part, ids) in parts.iter().enumerate() {
            for &id in ids {
                let Some(seen) = split_of.get_mut(id as usize) else {
                    return wrong(format!(
                        "node {id} of {} is out of range for {nodes} nodes",
                        SPLITS[part]
                    ));
                };
                if *seen != 0 {
                    let first = SPLITS[usize::from(*seen) - 1];
                    return wrong(format!("node {id} is in {first} and again in {}", SPLITS[part]));
                }
                *seen = part as u8 + 1;
            }
        }
        if parts[0].is_empty() {
            return wrong("no node to train on".to_string());
        }
        let [train, val, test] = parts.map(|mut ids| {
            ids.sort_unstable();
            ids
        });
        let blake3 = hash([&train, &val, &test]);
        Ok(Split { name, train, val, test, blake3 })
    }

    /// Reads `{"train": […], "val": […], "test": […]}`; a `name` in it is taken, else the one given.
    ///
    /// # Errors
    /// If it is something else, does not fit `nodes` nodes, or has not the `blake3` it states.
    pub fn from_json(name: &str, text: &str, nodes: usize) -> Result<Split> {
        let listed: Listed = serde_json::from_str(text).map_err(|e| {
            Error::data(format!(
                "split `{name}`: {e}; write {{\"train\": [ids], \"val\": [ids], \"test\": [ids]}}"
            ))
        })?;
        listed.into_split(name, nodes)
    }

    /// The same as JSON, with its name and blake3.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string() + "\n"
    }

    /// Training, validation, test.
    pub fn parts(&self) -> [&[u32]; 3] {
        [&self.train, &self.val, &self.test]
    }

    /// How many nodes are in each.
    pub fn sizes(&self) -> [usize; 3] {
        self.parts().map(<[u32]>::len)
    }
}

impl Listed {
    pub(super) fn into_split(self, name: &str, nodes: usize) -> Result<Split> {
        let name = self.name.unwrap_or_else(|| name.to_string());
        let split = Split::new(name, [self.train, self.val, self.test], nodes)?;
        match self.blake3 {
            Some(stated) if stated != split.blake3 => Err(Error::data(format!(
                "split `{}`: its nodes have the blake3 {}, but it states {stated}; get the file again",
                split.name, split.blake3
            ))),
            _ => Ok(split),
        }
    }
}

fn hash(parts: [&[u32]; 3]) -> String {
    let mut hasher = blake3::Hasher::new();
    for ids in parts {
        hasher.update(&(ids.len() as u64).to_le_bytes());
        for id in ids {
            hasher.update(&id.to_le_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// The split that a name such as `random-7` asks for; nothing if it is no such name.
/// `classes` has the class of every node, -1 if it has none.
pub(super) fn drawn(name: &str, classes: &[i64]) -> Option<Result<Split>> {
    let (kind, seed) = name.rsplit_once('-')?;
    let seed = Seed(seed.parse().ok()?);
    match kind {
        "random" => Some(per_class(name, classes, RANDOM, seed)),
        "half" => Some(halves(name, classes, seed)),
        _ => None,
    }
}

/// So many nodes of every class for training, and of the others for validation and test.
fn per_class(
    name: &str,
    classes: &[i64],
    (each, val, test): (usize, usize, usize),
    seed: Seed,
) -> Result<Split> {
    let count = classes.iter().max().map_or(0, |&last| (last + 1).max(0) as usize);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (node, &class) in classes.iter().enumerate().filter(|&(_, &class)| class >= 0) {
        members[class as usize].push(node as u32);
    }
    let (mut train, mut rest) = (Vec::new(), Vec::new());
    for (class, nodes) in members.iter_mut().enumerate() {
        if nodes.len() < each {
            return Err(Error::config(format!(
                "split `{name}` takes {each} nodes of every class, but class {class} has {}; \
                 use a split of the set, or one of your own",
                nodes.len()
            )));
        }
        seed.stream("split-class", class as u64, 0).shuffle(nodes);
        rest.extend(nodes.split_off(each));
        train.append(nodes);
    }
    if rest.len() < val + test {
        return Err(Error::config(format!(
            "split `{name}` takes {val} nodes for validation and {test} for test, but {} are left",
            rest.len()
        )));
    }
    rest.sort_unstable();
    seed.stream("split-rest", 0, 0).shuffle(&mut rest);
    let test = rest[val..val + test].to_vec();
    rest.truncate(val);
    Split::new(name, [train, rest, test], classes.len())
}

/// Half of all, a quarter, the remaining quarter.
fn halves(name: &str, classes: &[i64], seed: Seed) -> Result<Split> {
    let labelled = |node: &u32| classes[*node as usize] >= 0;
    let mut nodes: Vec<u32> = (0..classes.len() as u32).filter(labelled).collect();
    seed.stream("split-half", 0, 0).shuffle(&mut nodes);
    let count = nodes.len();
    let test = nodes.split_off(count / 2 + count / 4);
    let val = nodes.split_off(count / 2);
    Split::new(name, [nodes, val, test], classes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(parts: [&[u32]; 3]) -> Result<Split> {
        Split::new("s", parts.map(<[u32]>::to_vec), 6)
    }

    #[test]
    fn wrong_splits_are_explained() {
        let explain = |parts| split(parts).unwrap_err().to_string();
        assert_eq!(
            explain([&[0], &[6], &[]]),
            "split `s`: node 6 of val is out of range for 6 nodes"
        );
        assert_eq!(
            explain([&[0, 1], &[2], &[1]]),
            "split `s`: node 1 is in train and again in test"
        );
        assert_eq!(explain([&[], &[2], &[1]]), "split `s`: no node to train on");
    }

    #[test]
    fn files_come_back_and_are_checked() {
        let one = split([&[4, 0], &[1], &[2, 3]]).unwrap();
        assert_eq!(one, split([&[0, 4], &[1], &[3, 2]]).unwrap());
        assert_ne!(one.blake3, split([&[0, 4, 1], &[], &[3, 2]]).unwrap().blake3);
        let text = one.to_json();
        assert_eq!(Split::from_json("other", &text, 6).unwrap(), one);
        let plain = r#"{"train": [4, 0], "valid": [1], "test": [2, 3]}"#;
        assert_eq!(Split::from_json("s", plain, 6).unwrap(), one);
        let changed = text.replace("[0,4]", "[0,5]");
        let error = Split::from_json("s", &changed, 6).unwrap_err().to_string();
        assert!(error.contains("but it states"), "{error}");
        let error = Split::from_json("s", "[1]", 6).unwrap_err().to_string();
        assert!(error.contains("write {\"train\""), "{error}");
    }

    #[test]
    fn draws_depend_on_the_seed_and_leave_out_who_has_no_class() {
        let classes: Vec<i64> = (0..2000).map(|node| node % 4 - i64::from(node % 8 == 0)).collect();
        let of = |name: &str| drawn(name, &classes).unwrap().unwrap();
        let one = of("random-7");
        assert_eq!(one.sizes(), [80, 500, 1000]);
        for class in 0..4 {
            let of_class = one.train.iter().filter(|&&node| classes[node as usize] == class);
            assert_eq!(of_class.count(), 20);
        }
        let all = || one.parts().into_iter().flatten();
        assert!(all().all(|&node| classes[node as usize] >= 0));
        assert_eq!(one, of("random-7"));
        assert_ne!(one.blake3, of("random-8").blake3);
        let half = of("half-7");
        assert_eq!(half.sizes(), [875, 437, 438]);
        assert!(drawn("public", &classes).is_none() && drawn("random-x", &classes).is_none());
        let few = drawn("random-7", &[0; 30]).unwrap().unwrap_err().to_string();
        assert!(few.contains("500 nodes for validation"), "{few}");
        let few = drawn("random-7", &[0, 1]).unwrap().unwrap_err().to_string();
        assert!(few.contains("class 0 has 1"), "{few}");
    }
}
