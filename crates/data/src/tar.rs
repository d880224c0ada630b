//! Samples in tar files, in WebDataset's format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::quote;
use crate::file::Opened;
use crate::memory::reserve;
use crate::source::Source;
use crate::stream::files::Files;
use crate::{Dataset, Error, Place, Records, Result, SampleContext, ShardedDataset};

mod input;
mod members;

use input::{Input, Packed, Placed};
use members::{Member, Members};

const OP: &str = "tar";
/// Default limit on the bytes of a sample.
const MOST_BYTES: usize = 256 << 20;

/// A sample of a tar file: consecutive members whose paths agree up to the first dot of the file
/// name. The common part is the key; the rest, in lower case, names a field.
///
/// `train/0001.jpg` and `train/0001.cls` form the sample `train/0001` with the fields `jpg` and
/// `cls`. If members of other keys lie between members of one key, the result is
/// [`Error::Malformed`]: sort the names before packing them (`tar --sort=name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarSample {
    key: String,
    fields: BTreeMap<String, Vec<u8>>,
}

impl TarSample {
    /// Returns the key: the folder, and the file name up to its first dot.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the content of a field.
    ///
    /// # Errors
    ///
    /// [`Error::NoField`] if the sample has no such field.
    pub fn field(&self, field: &str) -> Result<&[u8]> {
        self.fields.get(field).map(Vec::as_slice).ok_or_else(|| Error::NoField {
            op: OP,
            key: self.key.clone(),
            field: field.to_owned(),
            fields: self.fields.keys().cloned().collect(),
        })
    }

    /// Returns all fields by name.
    pub fn into_fields(self) -> BTreeMap<String, Vec<u8>> {
        self.fields
    }
}

/// Dataset of the samples of a tar file, in random access.
///
/// Opening reads the headers and stores the position of each member; samples are read on demand
/// with positional reads. A file whose name ends in `.gz` is decompressed into memory, up to 4 GiB.
/// [`TarShards`] reads files from front to back without an index.
///
/// Names of any length (GNU and PAX) are supported. Folders, members without a dot in their file
/// names and members named `__*__` are skipped, as in WebDataset. Reading a sample with a link, a
/// device, a sparse file or two members of one field gives [`Error::Malformed`]. Clones share the
/// file and the index.
///
/// # Examples
///
/// ```
/// use samebits_data::{Dataset, DatasetExt, DataLoader, Tar};
///
/// let mut tar = tar::Builder::new(Vec::new());
/// for (name, content) in [("a.cls", "3"), ("a.txt", "three"), ("b.cls", "5")] {
///     let mut header = tar::Header::new_gnu();
///     header.set_size(content.len() as u64);
///     tar.append_data(&mut header, name, content.as_bytes())?;
/// }
/// let samples = Tar::parse("digits.tar", tar.into_inner()?)?;
/// assert_eq!(samples.len(), 2);
/// let classes = samples.map(|sample, _| {
///     let class = std::str::from_utf8(sample.field("cls")?).map_err(samebits_data::Error::other)?;
///     class.parse::<i64>().map_err(samebits_data::Error::other)
/// });
/// let loader = DataLoader::builder(classes).batch_size(2).build()?;
/// assert_eq!(loader.epoch(0).next().unwrap()?.data, [3, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
///
/// [WebDataset](https://github.com/webdataset/webdataset).
#[derive(Clone, Debug)]
pub struct Tar {
    source: Arc<Source>,
    index: Arc<Index>,
    most: usize,
}

/// Positions of the samples' members.
#[derive(Debug, Default)]
struct Index {
    members: Vec<Member>,
    /// The end of each sample's members in `members`.
    ends: Vec<usize>,
}

impl Tar {
    /// Opens the file at `path` and finds its samples. No content is read yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Malformed`] with the offset of a header that is damaged, claims more
    /// than the file holds, or repeats the key of an earlier, finished sample; and
    /// [`Error::TooLarge`] for a name of more than 64 KiB.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Tar::of(Source::open(OP, path.as_ref())?)
    }

    /// Reads `bytes` as [`open`](Tar::open) does a file; errors use `name` as the path.
    ///
    /// # Errors
    ///
    /// As for [`open`](Tar::open).
    pub fn parse(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        Tar::of(Source::memory(name.into(), bytes)?)
    }

    /// Sets the limit on the bytes of a sample's fields together; 256 MiB by default. A larger
    /// sample gives [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        Tar { most: bytes, ..self }
    }

    fn of(source: Source) -> Result<Self> {
        let source = Arc::new(source);
        let mut members = Members::new(Placed::new(Arc::clone(&source)));
        let mut index = Index::default();
        let mut keys = Keys::default();
        while let Some(member) = members.next_member()? {
            let ends = index.members.last().is_some_and(|last| last.key != member.key);
            if ends || index.members.is_empty() {
                keys.open(source.path(), &member)?;
            }
            reserve(OP, &mut index.members, 1)?;
            if ends {
                reserve(OP, &mut index.ends, 1)?;
                index.ends.push(index.members.len());
            }
            index.members.push(member);
        }
        if !index.members.is_empty() {
            reserve(OP, &mut index.ends, 1)?;
            index.ends.push(index.members.len());
        }
        Ok(Tar { source, index: Arc::new(index), most: MOST_BYTES })
    }
}

impl Dataset for Tar {
    type Item = TarSample;

    fn len(&self) -> usize {
        self.index.ends.len()
    }

    fn describe(&self) -> String {
        format!("{}, {} samples", self.source.describe(OP), self.index.ends.len())
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<TarSample> {
        let Index { members, ends } = &*self.index;
        let Some(&end) = ends.get(index) else {
            return Err(Error::IndexOutOfRange { op: OP, index, len: ends.len() });
        };
        let start = if index == 0 { 0 } else { ends[index - 1] };
        let members = &members[start..end];
        let mut building = Building::new(&members[0].key, self.most);
        let mut input = Placed::new(Arc::clone(&self.source));
        for member in members {
            input.place(member.content);
            building.add(&mut input, member)?;
        }
        Ok(building.sample)
    }
}

/// Keys of the samples so far.
#[derive(Default)]
struct Keys(BTreeSet<String>);

impl Keys {
    /// Begins the sample of `member`, unless its key was used before.
    fn open(&mut self, path: &Path, member: &Member) -> Result<()> {
        if self.0.insert(member.key.clone()) {
            return Ok(());
        }
        let Member { key, field, header, .. } = member;
        let expected = format!("the members of sample {} side by side", quote(key));
        let found = format!("its field {} after another sample", quote(field));
        Err(Error::malformed(OP, path, Place::Offset(*header), expected, found))
    }
}

/// A sample whose members are being read.
struct Building {
    sample: TarSample,
    /// The number of bytes that may still be read.
    left: usize,
    most: usize,
}

impl Building {
    fn new(key: &str, most: usize) -> Self {
        let sample = TarSample { key: key.to_owned(), fields: BTreeMap::new() };
        Building { sample, left: most, most }
    }

    /// Reads a member; `input` must stand at its content.
    fn add(&mut self, input: &mut impl Input, member: &Member) -> Result<()> {
        let path = input.path();
        let fail = |expected: &str, found: String| {
            Err(Error::malformed(OP, path, Place::Offset(member.header), expected, found))
        };
        if let Some(refused) = member.refused {
            return fail("a regular file with a name in UTF-8", refused.to_owned());
        }
        if self.sample.fields.contains_key(&member.field) {
            let (key, field) = (&self.sample.key, &member.field);
            return fail("each field once", format!("{key:?} with two fields {field:?}"));
        }
        let size = usize::try_from(member.size).ok().filter(|&size| size <= self.left);
        let Some(size) = size else {
            let (path, place) = (path.to_owned(), Place::Offset(member.header));
            let (what, most) = ("a sample", self.most);
            return Err(Error::TooLarge { op: OP, path, place, what, most });
        };
        self.left -= size;
        let content = input.take(size)?;
        self.sample.fields.insert(member.field.clone(), content);
        Ok(())
    }
}

/// Dataset of the samples of tar files, read from front to back; one shard per file.
///
/// Files whose names end in `.gz` are decompressed while they are read. The rules of [`Tar`], which
/// reads one file in random access, decide the samples, the skipped members and the errors.
///
/// The keys of the open shards are kept in memory, to detect repeated keys.
///
/// Decode the fields with [`map`](crate::ShardedDatasetExt::map).
#[derive(Clone, Debug)]
pub struct TarShards {
    files: Files,
    most: usize,
}

impl TarShards {
    /// Creates the dataset of the samples of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        TarShards { files: Files::new(OP, paths), most: MOST_BYTES }
    }

    /// Sets the limit on the bytes of a sample's fields together; 256 MiB by default. A larger
    /// sample gives [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        TarShards { most: bytes, ..self }
    }
}

impl ShardedDataset for TarShards {
    type Raw = TarSample;
    type Item = TarSample;

    fn shards(&self) -> usize {
        self.files.count()
    }

    fn describe(&self) -> String {
        self.files.describe()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<TarSample>> {
        match self.files.open(shard)? {
            (path, Opened::Plain(file)) => {
                let source = Source::of_file(OP, path, file)?;
                Samples::open(Placed::new(Arc::new(source)), skip, self.most)
            }
            (path, Opened::Packed(file)) => Samples::open(Packed::new(path, file), skip, self.most),
        }
    }

    fn sample(&self, raw: TarSample, _: &mut SampleContext<'_>) -> Result<TarSample> {
        Ok(raw)
    }
}

/// Iterator over the samples of a file; ends after an error.
struct Samples<I> {
    members: Members<I>,
    /// The first member of the next sample; the input stands at its content.
    next: Option<Member>,
    keys: Keys,
    most: usize,
}

impl<I: Input + 'static> Samples<I> {
    /// Opens the samples after the first `skip`, whatever these contain.
    fn open(input: I, skip: u64, most: usize) -> Result<Records<TarSample>> {
        let mut members = Members::new(input);
        let mut next = members.next_member()?;
        let mut keys = Keys::default();
        for _ in 0..skip {
            let Some(first) = next.take() else { break };
            keys.open(members.at_content().path(), &first)?;
            next = loop {
                match members.next_member()? {
                    Some(member) if member.key == first.key => {}
                    other => break other,
                }
            };
        }
        Ok(Box::new(Samples { members, next, keys, most }))
    }

    fn read(&mut self, first: Member) -> Result<TarSample> {
        self.keys.open(self.members.at_content().path(), &first)?;
        let mut building = Building::new(&first.key, self.most);
        building.add(self.members.at_content(), &first)?;
        while let Some(member) = self.members.next_member()? {
            if member.key != first.key {
                self.next = Some(member);
                break;
            }
            building.add(self.members.at_content(), &member)?;
        }
        Ok(building.sample)
    }
}

impl<I: Input + 'static> Iterator for Samples<I> {
    type Item = Result<TarSample>;

    fn next(&mut self) -> Option<Result<TarSample>> {
        let first = self.next.take()?;
        Some(self.read(first))
    }
}
