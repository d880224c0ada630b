//! The number and size of the loader's allocations.

use std::sync::Arc;

use samebits_data::{
    Bijective, ByteOrder, Collate, DataLoader, Dataset, DatasetExt, Element, JsonLines, Memory,
    Order, Result, Rows, SampleContext, Sampler, Shard, Shuffled, Stack, Stackable, Tail,
    WorkerContext,
};
use samebits_rng::Generator;
use test_support::allocations::{Counting, asked};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_batch_asks_once_for_each_of_its_buffers() {
    fn times<S: Stackable>(samples: Vec<S>) -> usize {
        asked(|| Stack.collate(samples, &mut Generator::new(0)).unwrap())[0]
    }
    for count in [1, 7, 300] {
        let row = |i: usize| vec![i as f32; 65];
        assert_eq!(times((0..count).collect::<Vec<usize>>()), 0);
        assert_eq!(times((0..count).map(row).collect()), 1);
        assert_eq!(times((0..count).map(|i| [i as u8; 9]).collect()), 1);
        assert_eq!(times((0..count).map(|i| (row(i), i as i64)).collect()), 2);
        assert_eq!(times((0..count).map(|i| (row(i), [i; 3], i as u32)).collect()), 3);
    }
}

/// The bytes of a file pass through a buffer of the worker.
#[test]
fn a_sample_asks_for_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let rows = write("rows.bin", &[1; 1000]);
    let rows = Rows::open_raw(rows, 0, Element::U16, ByteOrder::Little, &[5]).unwrap();
    let lines = JsonLines::<f64>::open(write("a.jsonl", &b"0.5\n".repeat(100))).unwrap();
    let mut worker = WorkerContext::detached();
    let mut get = |index| {
        let cx = &mut SampleContext::detached(&mut worker, 0, 0, index);
        [asked(|| rows.get(index, cx).unwrap())[0], asked(|| lines.get(index, cx).unwrap())[0]]
    };
    get(0);
    for index in 1..100 {
        assert_eq!(get(index), [1, 0], "sample {index}");
    }
}

/// A sampler of the first and the last sample.
#[derive(Debug)]
struct Ends;

impl Sampler for Ends {
    fn describe(&self) -> String {
        "ends".to_owned()
    }

    fn order(&self, len: usize, _: u64, _: &Generator) -> Result<Order> {
        Ok(vec![0, len - 1].into())
    }
}

#[test]
fn rows_far_apart_are_read_without_what_lies_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.bin");
    std::fs::File::create(&path).unwrap().set_len(16 << 20).unwrap();
    let rows = Rows::open_raw(path, 0, Element::U8, ByteOrder::Little, &[16]).unwrap();
    let loader = DataLoader::builder(rows).batch_size(2).sampler(Ends).build().unwrap();
    let [_, bytes] = asked(|| loader.epoch(0).next().unwrap().unwrap());
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

#[test]
fn an_order_of_a_billion_samples_takes_no_memory() {
    const LEN: usize = 1_000_000_000;
    let first = asked(|| Generator::new(7).bijection(LEN as u64).at(0).unwrap());
    assert_eq!(first, [0, 0]);
    let data = Arc::new(Memory::new(vec![(); LEN]).map(|(), cx| Ok(cx.index())));
    for rank in [0, 100, 255] {
        let [_, bytes] = asked(|| {
            let loader = DataLoader::builder(Arc::clone(&data)).batch_size(64).sampler(Bijective);
            let loader = loader.shard(Shard::new(rank, 256, Tail::Pad).unwrap()).build().unwrap();
            loader.epoch(0).next().unwrap().unwrap()
        });
        assert!(bytes < 1 << 20, "{bytes} bytes for rank {rank}");
    }
    // A sampler that lists its positions would be detected.
    let [_, bytes] = asked(|| Shuffled.order(1 << 17, 0, &Generator::new(0)).unwrap());
    assert!(bytes >= 1 << 20, "{bytes}");
}
