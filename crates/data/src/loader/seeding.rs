//! Seeds of a loader, and the generators that are seeded with them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use samebits_rng::Generator;
use serde::{Deserialize, Serialize};

use super::state::WorkerState;
use crate::context::{self, SampleKeys, SeedHook, SeedScope, WorkerContext};
use crate::{BoxError, Determinism, Error, PyTorch, Result};

/// Source of the base seed and the order of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Seeding {
    /// Children of a generator; see [`LoaderBuilder::generator`](super::LoaderBuilder::generator).
    Addressed(Generator),
    /// PyTorch's draws; set by [`LoaderBuilder::pytorch`](super::LoaderBuilder::pytorch).
    PyTorch(PyTorch),
}

impl Seeding {
    /// Returns the generator from which samples' generators are derived.
    pub(crate) fn generator(&self) -> Generator {
        match self {
            Seeding::Addressed(generator) => generator.clone(),
            Seeding::PyTorch(torch) => torch.generator(),
        }
    }

    pub(crate) fn order_generator(&self, epoch: u64) -> Generator {
        context::order_key(&self.generator(), epoch)
    }

    /// Returns the base seed of a rank's workers. With PyTorch's seeding, PyTorch's own seed, which
    /// is the same on all ranks, is used for rank 0 only.
    pub(crate) fn base_seed(&self, epoch: u64, len: usize, rank: usize) -> Result<u64> {
        match (self, rank) {
            (Seeding::Addressed(generator), _) => Ok(context::base_seed(generator, epoch, rank)),
            (Seeding::PyTorch(torch), 0) => torch.base_seed(epoch, len),
            (Seeding::PyTorch(torch), _) => Ok(context::base_seed(&torch.generator(), epoch, rank)),
        }
    }
}

type Init = dyn Fn(&mut WorkerContext) -> Result<(), BoxError> + Send + Sync;

/// Foreign generators and the caller's own initialisation.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) init: Option<Arc<Init>>,
    worker: Vec<Arc<dyn SeedHook>>,
    sample: Vec<Arc<dyn SeedHook>>,
}

impl Hooks {
    pub(crate) fn add(&mut self, scope: SeedScope, hook: Arc<dyn SeedHook>) {
        match scope {
            SeedScope::Worker => self.worker.push(hook),
            SeedScope::Sample => self.sample.push(hook),
        }
    }

    pub(crate) fn check(&self, level: Determinism) -> Result<()> {
        if !self.worker.is_empty() && level > Determinism::RunToRun {
            return Err(Error::LevelUnavailable {
                op: "loader: seeding a library per worker",
                required: level,
                best: Determinism::RunToRun,
                instead: "register the hook with SeedScope::Sample",
            });
        }
        let mut names = BTreeMap::new();
        for hook in self.worker.iter().chain(&self.sample) {
            if names.insert(hook.name().to_owned(), ()).is_some() {
                return Err(Error::option(
                    "loader",
                    "seed hook",
                    hook.name(),
                    "was registered twice: give each hook a name of its own",
                ));
            }
        }
        Ok(())
    }

    /// Seeds and initialises a worker at the start of an epoch, then restores its saved state, if
    /// any.
    pub(crate) fn start(
        &self,
        worker: &mut WorkerContext,
        saved: Option<&WorkerState>,
    ) -> Result<()> {
        let id = worker.info().id;
        let fail = |stage: String, source| Error::WorkerInit { worker: id, stage, source };
        for hook in &self.worker {
            hook.seed(worker.info().seed)
                .map_err(|source| fail(format!("seeding {:?}", hook.name()), source))?;
        }
        if let Some(init) = &self.init {
            init(worker).map_err(|source| fail("initialisation".to_owned(), source))?;
        }
        let Some(saved) = saved else { return Ok(()) };
        worker.generator = saved.generator.clone();
        for hook in &self.worker {
            if let Some(state) = saved.hooks.get(hook.name()) {
                hook.restore(state)
                    .map_err(|source| fail(format!("restoring {:?}", hook.name()), source))?;
            }
        }
        Ok(())
    }

    /// Returns true if libraries are seeded per sample.
    pub(crate) fn seed_samples(&self) -> bool {
        !self.sample.is_empty()
    }

    /// Seeds the libraries that are seeded per sample.
    #[inline]
    pub(crate) fn before_sample(&self, keys: &SampleKeys, address: (u64, u64)) -> Result<()> {
        if self.sample.is_empty() {
            return Ok(());
        }
        let seed = keys.hook_seed(address);
        for hook in &self.sample {
            hook.seed(seed).map_err(Error::Other)?;
        }
        Ok(())
    }

    /// Returns the worker's state for resumption, or none if it has no randomness of its own.
    pub(crate) fn save(&self, worker: &WorkerContext) -> Option<WorkerState> {
        if worker.level > Determinism::RunToRun {
            return None;
        }
        let hooks = self.worker.iter();
        let hooks = hooks.filter_map(|hook| Some((hook.name().to_owned(), hook.save()?)));
        Some(WorkerState { generator: worker.generator.clone(), hooks: hooks.collect() })
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("init", &self.init.is_some())
            .field("worker", &self.worker.len())
            .field("sample", &self.sample.len())
            .finish()
    }
}
