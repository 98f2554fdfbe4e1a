//! Parameters written as `key=value,key=value`, checked against what a coarsener lists.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Entry;
use crate::error::did_you_mean;
use crate::{Error, Result};

/// A parameter of a coarsener.
pub struct Parameter {
    /// The key.
    pub name: &'static str,
    /// The value when it is not given, as text; "-" where there is none.
    pub default: &'static str,
    /// What it does, and which values it takes.
    pub help: &'static str,
}

/// The parameters given for one coarsener.
pub struct Arguments {
    coarsener: &'static str,
    given: BTreeMap<String, String>,
}

impl Arguments {
    pub(super) fn parse(entry: &Entry, text: &str) -> Result<Self> {
        let mut given = BTreeMap::new();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').ok_or_else(|| {
                Error::config(format!("`{item}` in `{}:{text}` is not key=value", entry.name))
            })?;
            let names = || entry.parameters.iter().map(|p| p.name);
            if !names().any(|name| name == key) {
                return Err(Error::config(format!(
                    "coarsener `{}` has no parameter `{key}`{} (it has: {})",
                    entry.name,
                    did_you_mean(key, names()),
                    names().collect::<Vec<_>>().join(", ")
                )));
            }
            if given.insert(key.to_string(), value.to_string()).is_some() {
                return Err(Error::config(format!("parameter `{key}` is given twice")));
            }
        }
        Ok(Arguments { coarsener: entry.name, given })
    }

    /// The value of `key`, or nothing if it was not given. `expected` says what fits, for errors.
    pub fn take<T: FromStr>(&mut self, key: &str, expected: &str) -> Result<Option<T>> {
        let Some(text) = self.given.remove(key) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(key, &text, expected)),
        }
    }

    /// The value of `key` if it passes `valid`, else an error; the default if it was not given.
    pub fn take_or<T: FromStr>(
        &mut self,
        key: &str,
        default: T,
        expected: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let text = self.given.get(key).cloned().unwrap_or_default();
        match self.take(key, expected)? {
            None => Ok(default),
            Some(value) if valid(&value) => Ok(value),
            Some(_) => Err(self.wrong(key, &text, expected)),
        }
    }

    fn wrong(&self, key: &str, value: &str, expected: &str) -> Error {
        Error::config(format!(
            "`{value}` is no value for `{key}` of coarsener `{}`; expected {expected}",
            self.coarsener
        ))
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.given.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::coarsen::parse;

    #[test]
    fn mistakes_are_named() {
        for (spec, expected) in [
            ("louvain:resolution", "is not key=value"),
            ("louvain:resolutoin=1", "did you mean `resolution`?"),
            ("louvain:resolution=1,resolution=2", "given twice"),
            ("louvain:resolution=x", "expected a number > 0"),
            ("louvain:resolution=-1", "`-1` is no value for `resolution`"),
            ("newman:ties=any", "expected canonical or random"),
            ("random:clusters=0", "expected a whole number ≥ 1, or several"),
            ("random:like=luvain", "did you mean `louvain`?"),
            ("quicksort", "unknown coarsener `quicksort`; `hdse list coarseners` shows all"),
        ] {
            let error = parse(spec).err().unwrap_or_else(|| panic!("{spec} is accepted"));
            assert!(error.is_config());
            assert!(format!("{error:#}").contains(expected), "{spec}: {error:#}");
        }
    }

    #[test]
    fn descriptions_parse_to_themselves() {
        for spec in [
            "newman:ties=canonical",
            "newman:ties=random,clusters=3",
            "louvain:resolution=1",
            "random:ratio=0.1",
            "random:clusters=7",
            "random:like=newman",
        ] {
            assert_eq!(parse(spec).unwrap().describe(), spec);
        }
        assert_eq!(parse("newman").unwrap().describe(), "newman:ties=canonical");
    }
}
