//! The observer, its lines, and the thread that writes them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use samebits_ledger::record::{Detail, Digests, Generator as Positions, Header, Phase, Program};
use samebits_ledger::writer::{self, Lines, Sink, file_of_rank, is_file_name};
use samebits_rng::Generator;
use samebits_tensor_core::observe::{self, Call, Observer};
use samebits_tensor_core::{Tensor, random};
use serde_json::Value as Json;

use crate::contents::{Contents, Late};
use crate::environment::environment;
use crate::keep::{Keep, Keeper};
use crate::module::{Alive, module};
use crate::scribe::{Event, Operation, Place, Seen, Site, Step, argument, parent, position};
use crate::{Error, Result};

/// The longest time that a record waits to be written together with others.
const PATIENCE: Duration = Duration::from_millis(10);
/// The number of bytes of lines that are written at once.
const BATCH: usize = 64 << 10;
/// Limit on the bytes of waiting lines; beyond it, the recording thread writes them itself.
const MOST: usize = 4 << 20;

/// The settings of a [`Recorder`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file that ends in `.jsonl` or `.jsonl.zst`, or a folder for the files of ranks.
    pub path: PathBuf,
    /// The rank of this process.
    pub rank: u32,
    /// The number of ranks.
    pub world_size: u32,
    /// The level of detail.
    pub detail: Detail,
    /// The coverage of digests.
    pub digests: Digests,
    /// The steps whose tensors are kept in separate files.
    pub keep: Option<Keep>,
    /// The seeds, by name.
    pub seeds: BTreeMap<String, u64>,
    /// The identity of the data.
    pub data: Option<String>,
}

impl Settings {
    /// Creates settings that record every operation of a single rank, with this thread's default
    /// seed.
    pub fn new(path: PathBuf) -> Settings {
        let seed = random::initial_seed().map(|seed| ("default".to_owned(), seed));
        Settings {
            path,
            rank: 0,
            world_size: 1,
            detail: Detail::Op,
            digests: Digests::default(),
            keep: None,
            seeds: seed.into_iter().collect(),
            data: None,
        }
    }
}

/// Recorder of operations, batches and steps in the ledger of a rank. Dropping it writes the
/// remaining lines.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    _alive: Alive,
}

struct Shared {
    path: PathBuf,
    detail: Detail,
    keep: Option<Keep>,
    keeper: Option<Mutex<Keeper>>,
    contents: Contents,
    /// Parameters and buffers by the address of their storage. Holding them keeps the addresses
    /// from being reused.
    names: Mutex<BTreeMap<usize, (Arc<str>, Tensor)>>,
    page: Mutex<Page>,
    /// Signals work for the thread.
    due: Condvar,
    /// `None` once the ledger is finished. The writing thread holds the lock, so that lines stay in
    /// order.
    sink: Mutex<Option<Sink>>,
}

/// The lines that are still to be written, and the position in the run.
struct Page {
    lines: Lines,
    /// Late digests, each with its position in the lines.
    late: Vec<(usize, Arc<Late>)>,
    step: u64,
    microbatch: u64,
    /// The number of records of each operation and layer in this step.
    occurrences: BTreeMap<Key, u64>,
    /// The last position that cannot be used again.
    passed: Option<(u64, u64)>,
    /// The beginning of the step, until it ends.
    begun: Option<Begun>,
    /// The error that stopped the writing, if any.
    failure: Option<Arc<Error>>,
    /// True if the ledger has its last line.
    finished: bool,
    /// True while the recorder is being dropped.
    closing: bool,
}

/// The beginning of a step.
#[derive(Clone)]
struct Begun {
    step: u64,
    /// The sequence of its first record.
    from: u64,
    /// The numbers of records of the step before its first batch.
    occurrences: BTreeMap<Key, u64>,
}

/// True for a layer; its position, its module and its name.
type Key = (bool, Place, Arc<str>, &'static str);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.shared.path.display())
    }
}

impl Recorder {
    /// Creates the file and writes its header.
    ///
    /// # Errors
    ///
    /// If the file already exists or cannot be written, the rank is not below the number of ranks,
    /// or there are several ranks and the path is that of a file.
    pub fn create(settings: Settings) -> Result<Recorder> {
        let Settings { path, rank, world_size, detail, digests, keep, seeds, data } = settings;
        if rank >= world_size {
            let message = format!("rank {rank} is not below the number of ranks, {world_size}");
            return Err(Error::Invalid(message));
        }
        if world_size > 1 && is_file_name(&path) {
            let message = format!(
                "{} is a file, but each of {world_size} ranks needs one of its own: name a folder",
                path.display()
            );
            return Err(Error::Invalid(message));
        }
        let writer =
            Program { name: "samebits".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let header =
            Header { world_size, writer, detail, digests, environment: environment(), seeds, data };
        let (lines, sink) = writer::create(&file_of_rank(&path, rank), rank, header)?;
        let keeper = keep.map(|_| Keeper::beside(sink.path()).map(Mutex::new)).transpose()?;
        let shared = Arc::new(Shared {
            path: sink.path().to_owned(),
            detail,
            keep,
            keeper,
            contents: Contents::new(digests),
            names: Mutex::default(),
            page: Mutex::new(Page {
                lines,
                late: Vec::new(),
                step: 0,
                microbatch: 0,
                occurrences: BTreeMap::new(),
                passed: None,
                begun: None,
                failure: None,
                finished: false,
                closing: false,
            }),
            due: Condvar::new(),
            sink: Mutex::new(Some(sink)),
        });
        let background = shared.clone();
        let thread = thread::Builder::new().name("samebits-ledger".to_owned());
        let thread =
            thread.spawn(move || background.write_until_closed()).map_err(Error::Thread)?;
        Ok(Recorder { shared, thread: Some(thread), _alive: Alive::new() })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the level of detail.
    pub fn detail(&self) -> Detail {
        self.shared.detail
    }

    /// Sets the step and batch of the following records.
    ///
    /// A step that has not ended can begin again at batch 0. The ledger then marks the records of the first
    /// attempt, and readers skip them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the position is not after the last one: a ledger holds one run. As
    /// [`flush`](Self::flush) if the step begins again.
    pub fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        let comes_again = {
            let page = self.shared.page.lock();
            page.passed.is_some_and(|passed| (step, microbatch) <= passed)
        };
        if comes_again {
            self.again(step, microbatch)?;
        }
        let mut page = self.shared.page.lock();
        page.go_to(step, microbatch);
        page.passed = Some((step, microbatch));
        if microbatch == 0 {
            let (from, occurrences) = (page.lines.sequence(), page.occurrences.clone());
            page.begun = Some(Begun { step, from, occurrences });
        }
        Ok(())
    }

    /// Marks the records of a step since its first batch as abandoned.
    fn again(&self, step: u64, microbatch: u64) -> Result<()> {
        let begun = self.shared.page.lock().begun.clone();
        let Some(begun) = begun.filter(|begun| begun.step == step && microbatch == 0) else {
            let message = format!(
                "batch {microbatch} of step {step} comes again in {}: each run needs a ledger of \
                 its own",
                self.shared.path.display()
            );
            return Err(Error::Invalid(message));
        };
        self.shared.append(|page| {
            page.occurrences = begun.occurrences;
            Event::Abandoned { step, from: begun.from }
        })
    }

    /// Names the tensors of a model in the following operations and layers. A tensor listed several
    /// times gets the first of its names.
    pub fn watch(&self, tensors: Vec<(String, Tensor)>) {
        let mut names = self.shared.names.lock();
        names.clear();
        for (name, tensor) in tensors {
            names.entry(tensor.storage_address()).or_insert_with(|| (name.into(), tensor));
        }
    }

    /// Returns the name of a tensor of the model.
    pub fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        self.shared.name_of(tensor)
    }

    /// Records a layer: its type, the path of its module, its inputs and its outputs.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn layer(
        &self,
        name: &'static str,
        module: Arc<str>,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<()> {
        let (inputs, outputs) = (self.shared.named_all(inputs)?, self.shared.seen_all(outputs)?);
        self.shared.append(|page| {
            let place = page.place(observe::phase());
            Event::Layer(Operation {
                place,
                name,
                module: &module,
                site: None,
                occurrence: page.occurrence((true, place, module.clone(), name)),
                level: None,
                variant: "",
                inputs,
                outputs,
                parameters: BTreeMap::new(),
                generator: None,
            })
        })
    }

    /// Records a batch: its tensors, and the indices of its samples.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        let tensors = self.shared.seen_all(tensors)?;
        let indices = indices.map(|indices| self.shared.seen(indices)).transpose()?;
        self.shared.append(|page| {
            let (step, microbatch) = (page.step, page.microbatch);
            Event::Data { step, microbatch, tensors, indices }
        })
    }

    /// Records the end of a step and moves on to the next: the loss, the model's tensors and
    /// gradients by name, and the generator's position. Names set by [`watch`](Self::watch) are
    /// dropped, because a step replaces the tensors that they named.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn step(
        &self,
        loss: Option<&Tensor>,
        parameters: &[(String, Tensor)],
        gradients: &[(String, Tensor)],
        generator: Option<&Generator>,
    ) -> Result<()> {
        let loss = loss.map(|loss| self.shared.seen(loss)).transpose()?;
        let parameters = self.shared.seen_by_name(parameters)?;
        let gradients = self.shared.seen_by_name(gradients)?;
        let generator = generator.map(position);
        self.shared.names.lock().clear();
        self.shared.append(|page| {
            let step = page.step;
            page.go_to(step + 1, 0);
            page.passed = Some((step, u64::MAX));
            page.begun = None;
            Event::Step(Step { step, loss, parameters, gradients, generator })
        })
    }

    /// Writes everything recorded so far.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, a device fails to return a tensor, or the ledger is finished.
    pub fn flush(&self) -> Result<()> {
        self.shared.write();
        self.shared.page.lock().usable(&self.shared.path)
    }

    /// Writes everything, and a last line that marks the ledger as complete. Afterwards nothing can
    /// be recorded.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn finish(&self) -> Result<()> {
        {
            let mut page = self.shared.page.lock();
            page.usable(&self.shared.path)?;
            page.finished = true;
        }
        self.shared.write();
        let sink = self.shared.sink.lock().take();
        let mut page = self.shared.page.lock();
        match (&page.failure, sink) {
            (Some(failure), _) => Err(Error::Earlier(failure.clone())),
            (None, Some(mut sink)) => Ok(sink.finish(std::mem::take(&mut page.lines))?),
            (None, None) => Ok(()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.page.lock().closing = true;
        self.shared.due.notify_one();
        if let Some(thread) = self.thread.take() {
            // The remaining lines are written, or failed as earlier ones did.
            thread.join().ok();
        }
    }
}

impl Page {
    fn go_to(&mut self, step: u64, microbatch: u64) {
        if step != self.step {
            self.occurrences.clear();
        }
        (self.step, self.microbatch) = (step, microbatch);
    }

    fn place(&self, phase: observe::Phase) -> Place {
        let phase = match phase {
            observe::Phase::Forward => Phase::Forward,
            observe::Phase::Backward => Phase::Backward,
            observe::Phase::Optimizer => Phase::Optimizer,
        };
        Place { step: self.step, microbatch: self.microbatch, phase }
    }

    /// Returns the number of earlier records with this key.
    fn occurrence(&mut self, key: Key) -> u64 {
        let next = self.occurrences.entry(key).or_insert(0);
        *next += 1;
        *next - 1
    }

    fn usable(&self, path: &Path) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(Error::Earlier(failure.clone())),
            None if self.finished => Err(Error::Finished { path: path.to_owned() }),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Appends the line of the event that `make` returns.
    fn append<'a>(&self, make: impl FnOnce(&mut Page) -> Event<'a>) -> Result<()> {
        let mut page = self.page.lock();
        while page.lines.bytes().len() >= MOST {
            // The thread may be busy, or gone.
            MutexGuard::unlocked(&mut page, || self.write());
        }
        page.usable(&self.path)?;
        let before = page.lines.bytes().len();
        let event = make(&mut page);
        let places = page.lines.append(&event).map_err(|error| writer::Error::Write {
            path: self.path.clone(),
            source: error.into(),
        })?;
        page.late.extend(places.into_iter().zip(event.late()));
        // The thread sleeps while there are no lines, or few.
        if before == 0 || (before < BATCH && page.lines.bytes().len() >= BATCH) {
            self.due.notify_one();
        }
        Ok(())
    }

    fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        self.names.lock().get(&tensor.storage_address()).map(|(name, _)| name.clone())
    }

    /// Describes inputs, which may be parameters.
    fn named_all<'a>(&self, tensors: &[&'a Tensor]) -> Result<Vec<Seen<'a>>> {
        let named = |tensor| Ok(Seen { name: self.name_of(tensor), ..self.seen(tensor)? });
        tensors.iter().copied().map(named).collect()
    }

    fn seen_all<'a>(&self, tensors: &[&'a Tensor]) -> Result<Vec<Seen<'a>>> {
        tensors.iter().map(|tensor| self.seen(tensor)).collect()
    }

    fn seen_by_name<'a>(
        &self,
        tensors: &'a [(String, Tensor)],
    ) -> Result<BTreeMap<&'a str, Seen<'a>>> {
        tensors.iter().map(|(name, tensor)| Ok((name.as_str(), self.seen(tensor)?))).collect()
    }

    fn seen<'a>(&self, tensor: &'a Tensor) -> Result<Seen<'a>> {
        let file = match (&self.keeper, self.keep) {
            (Some(keeper), Some(keep)) if keep.contains(self.page.lock().step) => {
                Some(keeper.lock().keep(tensor)?)
            }
            _ => None,
        };
        Ok(Seen {
            shape: tensor.shape(),
            dtype: tensor.dtype(),
            device: tensor.device(),
            digest: self.contents.digest(tensor)?,
            name: None,
            file,
        })
    }

    /// Runs the writer thread.
    fn write_until_closed(&self) {
        loop {
            {
                let mut page = self.page.lock();
                let nothing = |page: &mut Page| page.lines.bytes().is_empty() && !page.closing;
                self.due.wait_while(&mut page, nothing);
                if page.lines.bytes().is_empty() {
                    return;
                }
                let little = |page: &mut Page| page.lines.bytes().len() < BATCH && !page.closing;
                self.due.wait_while_for(&mut page, little, PATIENCE);
            }
            self.write();
        }
    }

    /// Writes the lines.
    fn write(&self) {
        let mut sink = self.sink.lock();
        let (mut lines, late, failed) = {
            let mut page = self.page.lock();
            (page.lines.take(), std::mem::take(&mut page.late), page.failure.is_some())
        };
        let Some(sink) = sink.as_mut().filter(|_| !failed) else { return };
        if let Err(error) = write(sink, &mut lines, &late) {
            self.page.lock().failure.get_or_insert(Arc::new(error));
        }
    }

    fn recorded(&self, call: &Call<'_>) -> Result<()> {
        let (inputs, outputs) = (self.named_all(call.inputs)?, self.seen_all(call.outputs)?);
        let module = module().unwrap_or_else(|| {
            let parameter = inputs.iter().find_map(|input| input.name.as_deref());
            parent(parameter.unwrap_or_default()).into()
        });
        let parameters = call.parameters.iter();
        let parameters = parameters.map(|&(name, value)| (name, argument(value))).collect();
        // The caller reserves the numbers that an operation draws, so their end is unknown here.
        let generator =
            call.generator.map(|start| Positions { before: position(start), after: Json::Null });
        self.append(|page| {
            let place = page.place(call.phase);
            Event::Op(Operation {
                place,
                name: call.op,
                module: &module,
                site: Some(Site(call.caller)),
                occurrence: page.occurrence((false, place, module.clone(), call.op)),
                level: Some(call.required),
                variant: call.variant,
                inputs,
                outputs,
                parameters,
                generator,
            })
        })
    }
}

/// Writes lines with their late digests. If a digest fails, the lines before it are still written.
fn write(sink: &mut Sink, lines: &mut [u8], late: &[(usize, Arc<Late>)]) -> Result<()> {
    for (at, late) in late {
        match late.wait() {
            Ok(digest) => {
                let digits = digest.to_string();
                lines[*at..at + digits.len()].copy_from_slice(digits.as_bytes());
            }
            Err(error) => {
                let whole = lines[..*at].iter().rposition(|&byte| byte == b'\n');
                sink.write(&lines[..whole.map_or(0, |end| end + 1)])?;
                return Err(error.into());
            }
        }
    }
    Ok(sink.write(lines)?)
}

impl Observer for Recorder {
    fn observe(&self, call: &Call<'_>) -> samebits_tensor_core::Result<()> {
        self.shared.recorded(call).map_err(|error| match error {
            Error::Tensor(error) => error,
            error => {
                samebits_tensor_core::Error::Observer { op: call.op, message: error.to_string() }
            }
        })
    }
}
