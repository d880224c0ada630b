//! Parquet files: rows by index and in sequence, and damaged files rejected.
#![cfg(feature = "parquet")]

#[path = "common/parquet.rs"]
mod files;

use std::sync::Arc;

use files::file;
use samebits_data::{
    BatchContext, DataLoader, Dataset, DatasetExt, Error, Keep, Parquet, ParquetRow, ParquetShards,
    Result, SampleContext, ShardedDataset, StreamLoader, WorkerContext,
};

fn get<D: Dataset>(data: &D, index: usize) -> Result<D::Item> {
    let mut worker = WorkerContext::detached();
    data.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index))
}

/// Checks the content of row `i`.
fn check(row: &ParquetRow, i: i64) {
    assert_eq!(row.number::<i64>("id").unwrap(), i);
    assert_eq!(row.number::<u32>("small").unwrap(), u32::MAX - i as u32);
    assert_eq!(row.number::<f32>("x").unwrap(), i as f32 / 2.0);
    assert_eq!(row.number::<f64>("at.y").unwrap(), -i as f64 / 3.0);
    assert_eq!(row.number::<u8>("even").unwrap(), u8::from(i % 2 == 0));
    assert_eq!(row.is_null("text").unwrap(), i % 3 == 0);
    if i % 3 != 0 {
        assert_eq!(row.text("text").unwrap(), "a".repeat(i as usize));
    }
}

#[test]
fn rows_by_index_and_from_front_to_back() {
    let dir = tempfile::tempdir().unwrap();
    for packed in [false, true] {
        let path = dir.path().join("points.parquet");
        std::fs::write(&path, file(&[9, 0, 13, 1], packed)).unwrap();
        let rows = Parquet::open(&path).unwrap();
        assert_eq!(rows.len(), 23);
        for i in (0..23).rev() {
            check(&get(&rows, i).unwrap(), i as i64);
        }
        let error = get(&rows, 23).unwrap_err().to_string();
        assert_eq!(error, "parquet: index 23 is out of range for length 23");
        let shards = ParquetShards::new(vec![path.clone(), path.clone()]).unwrap();
        assert_eq!(shards.shards(), 8);
        for (shard, start, len) in [(0, 0, 9), (1, 9, 0), (2, 9, 13), (3, 22, 1), (6, 9, 13)] {
            for skip in 0..=len + 2 {
                let found: Vec<_> = shards.open(shard, skip).unwrap().map(Result::unwrap).collect();
                assert_eq!(found.len() as u64, len.saturating_sub(skip));
                for (row, i) in found.iter().zip(start + skip as i64..) {
                    check(row, i);
                }
            }
        }
        assert!(shards.open(8, 0).is_err());
    }
}

#[test]
fn batches_are_what_their_rows_are() {
    let rows = Parquet::parse("points.parquet", file(&[40, 7, 53], true)).unwrap();
    let numbers = rows.columns(&["x", "id"]).unwrap().map(|row, _| row.numbers::<f32>());
    let loader = DataLoader::builder(numbers).batch_size(30).shuffle(true).workers(2);
    let mut seen = 0;
    for batch in loader.build().unwrap().epoch(0) {
        let batch = batch.unwrap();
        for (place, index) in batch.indices.iter().enumerate() {
            let expected = [*index as f32 / 2.0, *index as f32];
            assert_eq!(batch.data.row(place).unwrap(), expected);
            seen += 1;
        }
    }
    assert_eq!(seen, 100);
}

/// A dataset that only returns rows as a batch.
struct Together(Parquet);

impl Dataset for Together {
    type Item = ParquetRow;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<ParquetRow> {
        panic!("row {index} is read alone");
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<ParquetRow>> {
        self.0.get_many(indices, cx)
    }
}

#[test]
fn the_rows_of_a_batch_are_read_together() {
    let rows = Together(Parquet::parse("points.parquet", file(&[40, 7, 53], true)).unwrap());
    let loader = DataLoader::builder_with(rows, Keep).batch_size(30).shuffle(true);
    for batch in loader.build().unwrap().epoch(0) {
        let batch = batch.unwrap();
        for (row, &index) in batch.data.iter().zip(&batch.indices) {
            check(row, index as i64);
        }
    }
}

#[test]
fn windows_shuffle_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("points.parquet");
    std::fs::write(&path, file(&[3000], true)).unwrap();
    let rows = Arc::new(ParquetShards::new(vec![path]).unwrap().columns(&["id"]).unwrap());
    let collate = |rows: Vec<ParquetRow>| rows.iter().map(|row| row.number::<i64>("id")).collect();
    let loader = |window| {
        let loader = StreamLoader::builder_with(Arc::clone(&rows), collate).batch_size(100);
        loader.window(window).workers(1).build().unwrap()
    };
    let ids = |window| -> Vec<i64> {
        let batches: Vec<Vec<i64>> = loader(window).epoch(0).map(|b| b.unwrap().data).collect();
        batches.concat()
    };
    assert_eq!(ids(1), (0..3000).collect::<Vec<_>>());
    let mut shuffled = ids(500);
    for (window, ids) in shuffled.chunks_mut(500).enumerate() {
        let all: Vec<i64> = (window as i64 * 500..).take(500).collect();
        assert_ne!(ids, all);
        ids.sort_unstable();
        assert_eq!(ids, all);
    }
}

#[test]
fn mistakes_are_named() {
    let rows = Parquet::parse("p.parquet", file(&[4], true)).unwrap();
    let row = get(&rows, 3).unwrap();
    for (error, text) in [
        (
            row.number::<i32>("small").map(drop),
            "parquet: p.parquet, row group 0, row 3: 4294967292 has no exact i32: read another type, \
             or permit rounding with `rounded`",
        ),
        (
            row.number::<i64>("text").map(drop),
            "parquet: p.parquet, row group 0, row 3: expected a number in column \"text\", found \
             nothing",
        ),
        (
            row.text("x").map(drop),
            "parquet: p.parquet, row group 0, row 3: expected text or bytes in column \"x\", found \
             1.5",
        ),
        (
            row.bytes("z").map(drop),
            "parquet: sample \"row group 0, row 3\": expected a field \"z\", found id, small, x, \
             at.y, text, even",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), text);
    }
    let error = rows.clone().columns(&["x", "z"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "parquet: column is \"z\": must be one of the file's, columns id, small, x, at.y, text, even"
    );
    let schema = "message prices { required int64 id; required int32 price (decimal(9, 2)); }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut prices = Vec::new();
    let writer =
        parquet::file::writer::SerializedFileWriter::new(&mut prices, schema, Arc::default());
    writer.unwrap().close().unwrap();
    let error = Parquet::parse("p.parquet", prices).unwrap().columns(&["price"]).unwrap_err();
    let text = "parquet: column is \"price\": must not hold decimals";
    assert_eq!(error.to_string(), text);
    let error = get(&rows.clone().most_bytes(3), 0).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: "a column", most: 3, .. }), "{error}");
    for bytes in [&b""[..], b"PAR1", b"PAR1\0\0\0\0PAR1", &[0; 100]] {
        let error = Parquet::parse("p.parquet", bytes.to_vec()).unwrap_err().to_string();
        assert!(error.starts_with("parquet: p.parquet, offset"), "{error}");
        assert!(error.contains("expected a whole Parquet file, found"), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.parquet");
    let whole = file(&[400], false);
    std::fs::write(&path, &whole).unwrap();
    let rows = Parquet::open(&path).unwrap();
    std::fs::write(&path, &whole[..10]).unwrap();
    let error = get(&rows, 399).unwrap_err().to_string();
    assert!(error.contains("though the file had"), "{error}");
}

/// Reads everything in a possibly damaged file.
fn read(bytes: Vec<u8>) -> Result<()> {
    let rows = Parquet::parse("p.parquet", bytes)?.most_bytes(1 << 20);
    let few = rows.len().min(40);
    for index in (0..few).chain([rows.len().wrapping_sub(1)]) {
        let row = get(&rows, index)?;
        let _ = (row.text("text").is_ok(), row.number::<f32>("x").is_ok());
    }
    Ok(())
}

#[test]
fn damaged_bytes_are_errors() {
    let hook = std::panic::take_hook();
    // Panics of the foreign reader become errors; their output is discarded.
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = [0, 0];
    for packed in [false, true] {
        let whole = file(&[5, 3], packed);
        assert!(read(whole.clone()).is_ok());
        for end in (0..whole.len()).step_by(7) {
            assert!(read(whole[..end].to_vec()).is_err(), "cut at {end}");
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= [1, 0x80, 0xff][place % 3];
            found[usize::from(read(bytes).is_ok())] += 1;
        }
    }
    std::panic::set_hook(hook);
    assert!(found[0] > 100 && found[1] > 100, "{found:?}");
}
