//! Absurd sizes and states give typed errors, no panic and no hang.

use samebits_data::{
    ByteOrder, DataLoader, Dataset, Element, Error, LoaderState, Memory, Result, Rows,
    SampleContext, Sampler, Shard, Stackable, Stacked, StreamLoader, StreamState, Tail, Weighted,
    WithReplacement, WorkerContext,
};
use samebits_rng::Generator;

#[derive(Debug)]
struct Long(usize);

impl Dataset for Long {
    type Item = i64;

    fn len(&self) -> usize {
        self.0
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<i64> {
        Ok(index as i64)
    }
}

#[test]
fn batches_of_any_size() {
    for size in [usize::MAX, usize::MAX / 2, 1 << 62] {
        for world in [1, 2, 3] {
            let loader = DataLoader::builder(Memory::new(vec![1_i64; 5]))
                .batch_size(size)
                .shard(Shard::new(0, world, Tail::Pad).unwrap())
                .build()
                .unwrap();
            let mut epoch = loader.epoch(0);
            assert_eq!(epoch.next().unwrap().unwrap().data.len(), 5_usize.div_ceil(world));
            epoch.state().unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "1\n2\n3\n").unwrap();
        let lines = samebits_data::Lines::new(vec![path]);
        let loader = StreamLoader::builder(lines).batch_size(size).build().unwrap();
        assert_eq!(loader.epoch(0).next().unwrap().unwrap().data.len(), 3);
    }
}

#[test]
fn worlds_of_any_size() {
    for world in [1 << 20, (1 << 32) - 1] {
        for rank in [0, 7, world - 1] {
            for tail in [Tail::Pad, Tail::Drop] {
                let loader = DataLoader::builder(Memory::new(vec![1_i64; 5]))
                    .shard(Shard::new(rank, world, tail).unwrap())
                    .build()
                    .unwrap();
                assert_eq!(loader.epoch(0).count(), usize::from(tail == Tail::Pad));
            }
        }
    }
    assert!(Shard::new(0, usize::MAX, Tail::Pad).is_err());
}

#[test]
fn lengths_that_no_order_can_have() {
    for len in [usize::MAX, usize::MAX / 8, 1 << 48] {
        // A computed order needs no memory.
        let loader = DataLoader::builder(Long(len)).batch_size(2).build().unwrap();
        assert_eq!(loader.epoch(0).next().unwrap().unwrap().data, [0, 1]);
        assert_eq!(loader.batches_in(0).unwrap(), len.div_ceil(2) as u64);
        let loader = DataLoader::builder(Long(len)).shuffle(true).build().unwrap();
        let error = loader.epoch(0).next().unwrap().unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        let sampler = WithReplacement::new(len);
        assert!(sampler.order(5, 0, &Generator::new(0)).is_err());
        let sampler = Weighted::with_replacement(vec![1.0, 2.0], len).unwrap();
        assert!(sampler.order(2, 0, &Generator::new(0)).is_err());
    }
}

#[test]
fn workers_lanes_and_prefetch_of_any_size() {
    let data = || Memory::new(vec![1_i64; 5]);
    let refused = |built: Result<DataLoader<Memory<i64>>>| {
        assert!(matches!(built, Err(Error::InvalidOption { .. })));
    };
    refused(DataLoader::builder(data()).workers(usize::MAX).prefetch(1).build());
    refused(DataLoader::builder(data()).workers(1 << 20).build());
    let loader = DataLoader::builder(data()).workers(1).prefetch(usize::MAX).build().unwrap();
    assert_eq!(loader.epoch(u64::MAX).count(), 5);
    let lines = || samebits_data::Lines::new(vec![]);
    assert!(StreamLoader::builder(lines()).lanes(usize::MAX).build().is_err());
    assert!(StreamLoader::builder(lines()).workers(usize::MAX).build().is_err());
}

#[test]
fn epochs_that_pytorch_would_not_reach() {
    use samebits_data::{PyTorch, TorchGenerator};
    for source in [TorchGenerator::Default, TorchGenerator::Own] {
        let torch = PyTorch::new(0, source, true);
        assert!(torch.base_seed(u64::MAX, 10).is_err());
        let loader = DataLoader::builder(Memory::new(vec![1_i64; 5])).pytorch(torch);
        assert!(loader.build().unwrap().epoch(u64::MAX).next().unwrap().is_err());
    }
}

#[test]
fn states_with_any_numbers() {
    let loader = DataLoader::builder(Memory::new(vec![1_i64; 5])).build().unwrap();
    let state = loader.epoch(0).state().unwrap();
    for batch in [6, u64::MAX - 1, u64::MAX] {
        for position in [0, 5, u64::MAX] {
            let bad = LoaderState { batch, position, ..state.clone() };
            assert!(matches!(loader.resume(&bad), Err(Error::StateMismatch { .. })));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    std::fs::write(&path, "1\n2\n3\n").unwrap();
    let loader =
        StreamLoader::builder(samebits_data::Lines::new(vec![path])).lanes(2).build().unwrap();
    let state = loader.epoch(0).state().clone();
    for number in [7, u64::MAX - 1, u64::MAX] {
        let mut records = state.clone();
        records.lanes[0].records = number;
        let mut shards = state.clone();
        shards.lanes[0].shards = number;
        let states = [
            StreamState { turn: number, ..state.clone() },
            StreamState { batch: number, ..state.clone() },
            records,
            shards,
        ];
        for state in states {
            if let Ok(epoch) = loader.resume(&state) {
                assert!(epoch.count() <= 3);
            }
        }
    }
}

#[test]
fn stacks_of_samples_without_size() {
    let many = vec![(); usize::MAX];
    assert!(Vec::<()>::stack(vec![many.clone(), many]).is_err());
    assert!(<[(); usize::MAX]>::stack(vec![[(); usize::MAX], [(); usize::MAX]]).is_err());
    let odd = Stacked { values: vec![1], rows: usize::MAX, columns: usize::MAX };
    assert_eq!(odd.row(1), None);
    assert_eq!(odd.row(0), None);
}

fn get<D: Dataset>(data: &D, index: usize) -> Result<D::Item> {
    let mut worker = WorkerContext::detached();
    data.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index))
}

#[test]
fn raw_numbers_that_begin_like_gzip_are_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.bin");
    std::fs::write(&path, [0x1f, 0x8b, 8, 0]).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::U16, ByteOrder::Little, &[1]).unwrap();
    assert_eq!(get(&rows, 0).unwrap(), [f32::from(0x8b1f_u16)]);
    assert_eq!(get(&rows, 1).unwrap(), [8.0]);
}

#[test]
fn numbers_that_f32_cannot_hold_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ids.bin");
    let ids = [1_u32 << 24, (1 << 24) + 1];
    std::fs::write(&path, ids.map(u32::to_le_bytes).concat()).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::U32, ByteOrder::Little, &[1]).unwrap();
    assert_eq!(get(&rows, 0).unwrap(), [16_777_216.0]);
    let error = get(&rows, 1).unwrap_err();
    assert!(error.to_string().contains("16777217"), "{error}");
}

#[test]
fn rows_without_elements_claim_no_length() {
    let idx = [[0, 0, 8, 2], [255; 4], [0; 4]].concat();
    assert!(Rows::parse_idx("f", idx).is_err());
}
