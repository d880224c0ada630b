//! The observer, its queue, and the thread behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use samebits_ledger::Writer;
use samebits_ledger::record::{Detail, Digests, Header, Phase, Program};
use samebits_ledger::writer::{file_of_rank, is_file_name};
use samebits_rng::Generator;
use samebits_tensor_core::observe::{self, Call, Observer};
use samebits_tensor_core::{Device, Tensor, random};

use crate::contents::Contents;
use crate::keep::{Keep, Keeper};
use crate::layers::{Alive, module};
use crate::process::environment;
use crate::scribe::{Called, Content, Ended, Item, Layer, Place, Scribe, Seen};
use crate::{Error, Result};

/// How long a record waits to be written together with others.
const PATIENCE: Duration = Duration::from_millis(10);
/// How many records do not wait for more.
const BATCH: usize = 256;
/// How many bytes of tensors do not wait for more.
const HELD: usize = 4 << 20;
/// The most records in the queue: who has another one writes them first.
const MOST_RECORDS: usize = 4096;
/// From how many bytes of tensors in the queue on operations digest their own, by the pool.
const MOST_HELD: usize = 128 << 20;
/// Tensors of up to this many bytes are digested at once, while they are in the cache.
const SMALL: usize = 16 << 10;

/// The settings of a [`Recorder`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file that ends in `.jsonl` or `.jsonl.zst`, or a folder for the files of ranks.
    pub path: PathBuf,
    /// Which rank this is.
    pub rank: u32,
    /// Of how many.
    pub world_size: u32,
    /// How much to record.
    pub detail: Detail,
    /// What digests cover.
    pub digests: Digests,
    /// The steps whose tensors are kept in files of their own.
    pub keep: Option<Keep>,
    /// The seeds, by name.
    pub seeds: BTreeMap<String, u64>,
    /// What identifies the data.
    pub data: Option<String>,
}

impl Settings {
    /// Every operation of a single rank, with the default seed of this thread.
    pub fn new(path: PathBuf) -> Settings {
        let seed = random::initial_seed().map(|seed| ("default".to_owned(), seed));
        Settings {
            path,
            rank: 0,
            world_size: 1,
            detail: Detail::Op,
            digests: Digests::Full,
            keep: None,
            seeds: seed.into_iter().collect(),
            data: None,
        }
    }
}

/// Writes operations, batches and steps to the file of a rank. Dropping it writes what is left.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    _alive: Alive,
}

struct Shared {
    path: PathBuf,
    detail: Detail,
    keep: Option<Keep>,
    contents: Contents,
    /// Parameters and buffers by the address of their storage, which cannot be given to another
    /// tensor as long as they are held here.
    names: Mutex<BTreeMap<usize, (Arc<str>, Tensor)>>,
    queue: Mutex<Queue>,
    /// There is something for the thread to do.
    due: Condvar,
    /// The bytes of tensors that the queue keeps, and those that are being digested.
    held: AtomicUsize,
    /// Who writes holds this, so that records stay in order.
    scribe: Mutex<Scribe>,
}

struct Queue {
    items: Vec<Item>,
    step: u64,
    microbatch: u64,
    /// The last place that cannot come again.
    passed: Option<(u64, u64)>,
    /// Why nothing more is written.
    failure: Option<Arc<Error>>,
    /// Whether the ledger has its last line.
    finished: bool,
    /// Whether the recorder is being dropped.
    closing: bool,
}

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
    /// The file exists already or cannot be written; the rank is not below the number of ranks;
    /// there are several ranks and the path is that of a file.
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
        let writer = Writer::create(&file_of_rank(&path, rank), rank, header)?;
        let keeper = keep.map(|_| Keeper::beside(writer.path())).transpose()?;
        let shared = Arc::new(Shared {
            path: writer.path().to_owned(),
            detail,
            keep,
            contents: Contents::new(digests),
            names: Mutex::default(),
            queue: Mutex::new(Queue {
                items: Vec::new(),
                step: 0,
                microbatch: 0,
                passed: None,
                failure: None,
                finished: false,
                closing: false,
            }),
            due: Condvar::new(),
            held: AtomicUsize::new(0),
            scribe: Mutex::new(Scribe::new(writer, keeper)),
        });
        let background = shared.clone();
        let thread = thread::Builder::new().name("samebits-ledger".to_owned());
        let thread =
            thread.spawn(move || background.write_until_closed()).map_err(Error::Thread)?;
        Ok(Recorder { shared, thread: Some(thread), _alive: Alive::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// How much is recorded.
    pub fn detail(&self) -> Detail {
        self.shared.detail
    }

    /// Says which batch of which step the following records belong to.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it does not come after the last one: a ledger holds one run.
    pub fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        let mut queue = self.shared.queue.lock();
        if queue.passed.is_some_and(|passed| (step, microbatch) <= passed) {
            let message = format!(
                "batch {microbatch} of step {step} comes again in {}: each run needs a ledger of \
                 its own",
                self.shared.path.display()
            );
            return Err(Error::Invalid(message));
        }
        (queue.step, queue.microbatch) = (step, microbatch);
        queue.passed = Some((step, microbatch));
        Ok(())
    }

    /// Names the tensors of a model in the following operations and layers. A tensor that comes
    /// several times has the first of its names.
    pub fn watch(&self, tensors: Vec<(String, Tensor)>) {
        let mut names = self.shared.names.lock();
        names.clear();
        for (name, tensor) in tensors {
            names.entry(tensor.storage_address()).or_insert_with(|| (name.into(), tensor));
        }
    }

    /// The name of a tensor of the model.
    pub fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        self.shared.name_of(tensor)
    }

    /// Records a layer: its type, the path of its module, and what went in and came out.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn layer(
        &self,
        name: &'static str,
        module: Arc<str>,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<()> {
        let inputs = self.shared.named_all(inputs)?;
        let outputs = self.shared.seen_all(outputs)?;
        self.shared.push(|queue| {
            Item::Layer(Layer {
                place: queue.place(observe::phase()),
                name,
                module,
                inputs,
                outputs,
            })
        })
    }

    /// Records a batch: its tensors, and the indices of its samples.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        let tensors = self.shared.seen_all(tensors)?;
        let indices = indices.map(|indices| self.shared.seen(indices)).transpose()?;
        self.shared.push(|queue| {
            let (step, microbatch) = (queue.step, queue.microbatch);
            Item::Data { step, microbatch, tensors, indices }
        })
    }

    /// Records the end of a step and goes on to the next: the loss, tensors of the model and
    /// gradients by name, and where the generator stands. Names are forgotten, because a step
    /// replaces what they named.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn step(
        &self,
        loss: Option<&Tensor>,
        parameters: Vec<(String, Tensor)>,
        gradients: Vec<(String, Tensor)>,
        generator: Option<&Generator>,
    ) -> Result<()> {
        let seen = |(name, tensor): (String, Tensor)| Ok((name, self.shared.seen(&tensor)?));
        let loss = loss.map(|loss| self.shared.seen(loss)).transpose()?;
        let parameters = parameters.into_iter().map(seen).collect::<Result<_>>()?;
        let gradients = gradients.into_iter().map(seen).collect::<Result<_>>()?;
        let generator = generator.cloned();
        self.shared.names.lock().clear();
        self.shared.push(|queue| {
            let step = queue.step;
            (queue.step, queue.microbatch) = (step + 1, 0);
            queue.passed = Some((step, u64::MAX));
            Item::Step(Ended { step, loss, parameters, gradients, generator })
        })
    }

    /// Writes everything that was recorded so far.
    ///
    /// # Errors
    ///
    /// The file cannot be written, a device fails to hand a tensor over, or the ledger is finished.
    pub fn flush(&self) -> Result<()> {
        self.shared.write();
        self.shared.queue.lock().usable(&self.shared.path)
    }

    /// Writes everything, and a last line that says that the ledger is complete. Afterwards nothing
    /// can be recorded.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn finish(&self) -> Result<()> {
        {
            let mut queue = self.shared.queue.lock();
            queue.usable(&self.shared.path)?;
            queue.finished = true;
        }
        self.shared.write();
        if let Some(failure) = &self.shared.queue.lock().failure {
            return Err(Error::Earlier(failure.clone()));
        }
        let writer = self.shared.scribe.lock().writer.take();
        Ok(writer.map_or(Ok(()), Writer::finish)?)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.due.notify_one();
        if let Some(thread) = self.thread.take() {
            // What is left is written, or has failed as the rest did.
            thread.join().ok();
        }
    }
}

impl Queue {
    fn place(&self, phase: observe::Phase) -> Place {
        let phase = match phase {
            observe::Phase::Forward => Phase::Forward,
            observe::Phase::Backward => Phase::Backward,
            observe::Phase::Optimizer => Phase::Optimizer,
        };
        Place { step: self.step, microbatch: self.microbatch, phase }
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
    /// Adds an item to the queue, which `make` makes of the place in the run.
    fn push(&self, make: impl FnOnce(&mut Queue) -> Item) -> Result<()> {
        let mut queue = self.queue.lock();
        while queue.items.len() >= MOST_RECORDS || self.keeps_too_much() {
            // The thread behind the queue may be busy, or gone.
            MutexGuard::unlocked(&mut queue, || self.write());
        }
        queue.usable(&self.path)?;
        let item = make(&mut queue);
        let bytes = item.held();
        queue.items.push(item);
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        // The thread sleeps when there is nothing, or when there is little.
        let crossed = before < HELD && before + bytes >= HELD;
        if matches!(queue.items.len(), 1 | BATCH) || crossed {
            self.due.notify_one();
        }
        Ok(())
    }

    /// Whether the tensors that are to be written whole are more than the queue may hold.
    fn keeps_too_much(&self) -> bool {
        self.keep.is_some() && self.held.load(Ordering::Relaxed) > MOST_HELD
    }

    fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        self.names.lock().get(&tensor.storage_address()).map(|(name, _)| name.clone())
    }

    /// Inputs, which may be parameters.
    fn named_all(&self, tensors: &[&Tensor]) -> Result<Vec<Seen>> {
        let named = |tensor| Ok(Seen { name: self.name_of(tensor), ..self.seen(tensor)? });
        tensors.iter().copied().map(named).collect()
    }

    fn seen_all(&self, tensors: &[&Tensor]) -> Result<Vec<Seen>> {
        tensors.iter().map(|tensor| self.seen(tensor)).collect()
    }

    fn seen(&self, tensor: &Tensor) -> Result<Seen> {
        let at_once = || {
            let small = tensor.numel() * tensor.dtype().size() <= SMALL;
            small && tensor.device() == Device::Cpu || self.held.load(Ordering::Relaxed) > MOST_HELD
        };
        let content = match self.contents.known(tensor) {
            Some(digest) => Content::Known(digest),
            None if at_once() => Content::Known(self.contents.digest(tensor)?),
            None => Content::Held(tensor.clone()),
        };
        Ok(Seen {
            shape: tensor.shape().iter().map(|&size| size as u64).collect(),
            dtype: tensor.dtype(),
            device: tensor.device(),
            name: None,
            content,
            kept: self.is_kept().then(|| tensor.clone()),
        })
    }

    /// Whether the tensors of the current step are.
    fn is_kept(&self) -> bool {
        self.keep.is_some_and(|keep| keep.contains(self.queue.lock().step))
    }

    /// The thread's work.
    fn write_until_closed(&self) {
        loop {
            {
                let mut queue = self.queue.lock();
                self.due.wait_while(&mut queue, |queue| queue.items.is_empty() && !queue.closing);
                if queue.items.is_empty() {
                    return;
                }
                let little = |queue: &mut Queue| {
                    !queue.closing
                        && queue.items.len() < BATCH
                        && self.held.load(Ordering::Relaxed) < HELD
                };
                self.due.wait_while_for(&mut queue, little, PATIENCE);
            }
            self.write();
        }
    }

    /// Writes what is in the queue.
    fn write(&self) {
        let mut scribe = self.scribe.lock();
        let (items, failed) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.items), queue.failure.is_some())
        };
        let mut result = Ok(());
        for item in items {
            let bytes = item.held();
            if !failed && result.is_ok() {
                result = scribe.write(item, &self.contents);
            }
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        if let (Ok(()), Some(writer)) = (&result, &mut scribe.writer) {
            result = writer.flush().map_err(Error::from);
        }
        if let Err(error) = result {
            self.queue.lock().failure = Some(Arc::new(error));
        }
    }

    fn recorded(&self, call: &Call<'_>) -> Result<()> {
        let inputs = self.named_all(call.inputs)?;
        let outputs = self.seen_all(call.outputs)?;
        let parameters = call.parameters.iter();
        let parameters = parameters.map(|&(name, value)| (name, format!("{value:?}"))).collect();
        let generator = call.generator.cloned();
        self.push(|queue| {
            Item::Operation(Called {
                place: queue.place(call.phase),
                name: call.op,
                module: module(),
                caller: call.caller,
                required: call.required,
                variant: call.variant,
                inputs,
                outputs,
                parameters,
                generator,
            })
        })
    }
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
