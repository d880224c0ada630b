//! The files of a run.

use std::path::{Path, PathBuf};

use super::{Ledger, Names, ReadError, header};
use crate::record::Header;
use crate::writer::is_file_name;

/// A run: one file per rank, with consistent headers.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) path: PathBuf,
    /// The header of the first rank.
    pub(crate) header: Header,
    files: Vec<(u32, PathBuf)>,
    world_size: u32,
}

impl Run {
    /// Finds the files of a run and reads their headers. A path to a file is treated as a run of
    /// one rank, whatever the number of ranks in the header.
    pub(crate) fn open(path: &Path) -> Result<Run, ReadError> {
        let paths = if path.is_dir() { rank_files(path)? } else { vec![path.to_owned()] };
        let count = u32::try_from(paths.len())
            .map_err(|_| ReadError::unusable(path, "holds too many files"))?;
        let mut first: Option<Header> = None;
        let mut files = Vec::new();
        for file in paths {
            let (rank, header) = header(&file, count)?;
            let world_size = first.get_or_insert_with(|| header.clone()).world_size;
            if header.world_size != world_size {
                let (shown, other) = (file.display(), header.world_size);
                let problem = format!("{world_size} ranks, and {other} in {shown}");
                return Err(ReadError::unusable(path, problem));
            }
            files.push((rank, file));
        }
        files.sort();
        let Some(header) = first else {
            return Err(ReadError::unusable(path, "holds no file named rank_*.jsonl"));
        };
        if path.is_dir() {
            for (expected, (rank, file)) in (0..).zip(&files) {
                if *rank != expected {
                    let problem = format!("expected rank {expected}, found {rank}");
                    return Err(ReadError::unusable(file, problem));
                }
            }
            if count != header.world_size {
                let problem = format!("{count} files of {} ranks", header.world_size);
                return Err(ReadError::unusable(path, problem));
            }
        }
        Ok(Run { path: path.to_owned(), world_size: header.world_size, header, files })
    }

    /// Returns the ranks that have files.
    pub(crate) fn ranks(&self) -> impl ExactSizeIterator<Item = u32> {
        self.files.iter().map(|&(rank, _)| rank)
    }

    /// Reads the ledger at `index` in [`Self::ranks`], counted from 0.
    pub(crate) fn ledger(&self, index: usize, names: &mut Names) -> Result<Ledger, ReadError> {
        Ledger::open(&self.files[index].1, self.world_size, names)
    }
}

fn rank_files(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(ReadError::io(folder))? {
        let path = entry.map_err(ReadError::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.starts_with("rank_") && is_file_name(&path) {
            files.push(path);
        }
    }
    Ok(files)
}
