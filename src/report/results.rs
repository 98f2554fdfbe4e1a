//! Results of an experiment as one small file: what finished runs came to and took, without checkpoints and curves.
//!
//! It is kept where folders of runs are too large to be: beside the page that it gives byte for byte, or on its way to another
//! machine, which goes on from it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::config::Config;
use crate::train::directory::{SeedDirectory, write_json};
use crate::train::record::{self, DataRecord, Record, SeedRecord, Seeds};
use crate::{Error, Result};

/// What an experiment came to so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// What was settled before the first run.
    pub plan: Plan,
    /// Rows that were begun.
    pub rows: Vec<RowResults>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowResults {
    /// Its name in the experiment.
    pub row: String,
    /// What was run.
    pub config: Config,
    /// What it was trained on.
    pub data: DataRecord,
    /// Its seeds.
    pub seeds: Vec<SeedRecord>,
}

impl Results {
    /// Those of a folder.
    ///
    /// # Errors
    /// If a file of a run is broken.
    pub fn of_folder(folder: &Path, plan: &Plan) -> Result<Results> {
        let begun = plan.rows.iter().filter_map(|row| {
            let directory = plan.run(folder, row)?;
            let record = Record::read(&directory);
            Some(record.map(|Record { config, data, seeds, .. }| RowResults {
                row: row.clone(),
                config,
                data,
                seeds: seeds.into_iter().filter(|seed| seed.seed < plan.seeds).collect(),
            }))
        });
        Ok(Results { plan: plan.clone(), rows: begun.collect::<Result<_>>()? })
    }

    /// Those that a file holds.
    ///
    /// # Errors
    /// If it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Results> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
        serde_json::from_str(&text).map_err(|e| {
            Error::data(format!(
                "{}: {e}; it should be a file that `hdse reproduce --results` wrote",
                path.display()
            ))
        })
    }

    /// Writes them, all or nothing.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }

    /// The run of a row, if it was begun.
    pub fn record(&self, row: &str) -> Option<Record> {
        let RowResults { config, data, seeds, .. } =
            self.rows.iter().find(|results| results.row == row)?.clone();
        Some(Record { name: row.to_string(), config, data, seeds })
    }

    /// Puts finished runs into a folder, as if they had been run there; what it holds already stays.
    ///
    /// # Errors
    /// If the folder holds runs of another plan, or of other settings or data.
    pub fn unpack(&self, folder: &Path) -> Result<()> {
        let plan = match Plan::read(folder)? {
            None => self.plan.clone(),
            Some(kept) => kept.clone().joined(self.plan.clone()).ok_or_else(|| {
                Error::config(format!(
                    "{} holds runs of another plan than the results: `{}`, {} epochs; give another folder with -o",
                    folder.display(),
                    kept.command,
                    kept.epochs
                ))
            })?,
        };
        for row in &self.rows {
            let directory = folder.join(&row.row);
            match plan.run(folder, &row.row) {
                None => {
                    let seeds = Seeds { first: 0, count: plan.seeds };
                    record::create(&directory, &row.config, &seeds, &row.data, None)?;
                }
                Some(run) => record::extend(&run, &row.config, plan.seeds, &row.data)?,
            }
            for seed in &row.seeds {
                let (Some(outcome), None) =
                    (&seed.outcome, SeedDirectory::at(&directory, seed.seed).outcome()?)
                else {
                    continue;
                };
                let place = SeedDirectory::create(&directory, seed.seed)?;
                seed.cost.map_or(Ok(()), |cost| place.write_cost(&cost))?;
                place.finish(outcome)?;
            }
        }
        write_json(&Plan::path(folder), &plan)
    }
}
