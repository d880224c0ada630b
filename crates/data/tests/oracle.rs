//! Arbitrary settings, against a loader of ten lines.

use proptest::prelude::*;
use samebits_data::{
    BatchSampler, Bijective, DataLoader, DatasetExt, Memory, Order, Result, Sampler, Sequential,
    Shard, Shuffled, Tail, Weighted, WithReplacement,
};
use samebits_rng::Generator;

/// Returns the generator of an epoch's order, as the loader's documentation defines it.
fn order_generator(seed: u64, epoch: u64) -> Generator {
    Generator::new(seed).derive("order").fold_in(epoch)
}

/// Returns the first word of sample `index` on visit number `repeat`.
fn draw(seed: u64, epoch: u64, index: usize, repeat: u64) -> u32 {
    let samples = Generator::new(seed).derive("sample").fold_in(epoch);
    samples.fold_in(index as u64).fold_in(repeat).next_block()[0]
}

fn sampler(kind: u8, len: usize) -> Box<dyn Sampler> {
    match kind {
        0 => Box::new(Sequential),
        1 => Box::new(Shuffled),
        2 => Box::new(WithReplacement::new(if len == 0 { 0 } else { len + 5 })),
        _ if len == 0 => Box::new(Sequential),
        _ => Box::new(Weighted::with_replacement(vec![0.5; len], 2 * len).unwrap()),
    }
}

#[derive(Debug)]
struct Boxed(Box<dyn Sampler>);

impl Sampler for Boxed {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn order(&self, len: usize, epoch: u64, generator: &Generator) -> Result<Order> {
        self.0.order(len, epoch, generator)
    }

    fn may_repeat(&self) -> bool {
        self.0.may_repeat()
    }
}

#[test]
fn samplers_are_told_apart_by_their_descriptions() {
    let samplers: [&dyn Sampler; 5] = [
        &Sequential,
        &Shuffled,
        &Bijective,
        &WithReplacement::new(3),
        &Weighted::with_replacement(vec![0.5; 3], 3).unwrap(),
    ];
    // Saved states contain them.
    let told = samplers.map(|sampler| sampler.describe());
    assert_eq!(
        told[..4],
        ["sequential", "shuffled", "shuffled by a bijection", "3 with replacement"]
    );
    assert!(told[4].starts_with("3 weighted with replacement, digest "), "{}", told[4]);
}

#[cfg(feature = "progress")]
#[test]
fn a_bar_tells_how_many_batches_are_left() {
    let loader = DataLoader::builder(Memory::new(vec![1_i64; 10])).batch_size(4).build().unwrap();
    let mut epoch = loader.epoch(0).progress("training");
    for left in (0..3).rev() {
        epoch.next().unwrap().unwrap();
        assert_eq!(epoch.size_hint(), (0, Some(left)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_loader_is_its_definition(
        len in 0..40_usize,
        kind in 0..4_u8,
        seed in any::<u64>(),
        epoch in any::<u64>(),
        batch_size in 1..9_usize,
        drop_last in any::<bool>(),
        (workers, prefetch) in (0..4_usize, 1..4_usize),
        (stop, resumed_workers) in (0..10_usize, 0..4_usize),
    ) {
        let order = sampler(kind, len).order(len, epoch, &order_generator(seed, epoch)).unwrap();
        let order = order.into_vec().unwrap();
        let mut visits = vec![0; len];
        let samples: Vec<(usize, u32)> = order
            .iter()
            .map(|&index| {
                visits[index] += 1;
                (index, draw(seed, epoch, index, visits[index] - 1))
            })
            .collect();
        let mut expected: Vec<_> = samples.chunks(batch_size).map(<[_]>::to_vec).collect();
        if drop_last && expected.last().is_some_and(|batch| batch.len() < batch_size) {
            expected.pop();
        }

        let loader = |workers| {
            let data = Memory::new((0..len).collect())
                .map(|index: usize, cx| Ok((index, cx.rng().next_block()[0])));
            DataLoader::builder(data)
                .batch_size(batch_size)
                .sampler(Boxed(sampler(kind, len)))
                .drop_last(drop_last)
                .seed(seed)
                .workers(workers)
                .prefetch(prefetch)
                .build()
                .unwrap()
        };
        let first = loader(workers);
        prop_assert_eq!(first.batches_in(epoch).unwrap(), expected.len() as u64);
        let mut running = first.epoch(epoch);
        let mut found = Vec::new();
        for batch in running.by_ref().take(stop) {
            found.push(batch.unwrap());
        }
        let state = running.state().unwrap();
        drop(running);
        let second = loader(resumed_workers);
        for batch in second.resume(&state).unwrap() {
            found.push(batch.unwrap());
        }
        for (number, batch) in found.iter().enumerate() {
            prop_assert_eq!(batch.number, number as u64);
            prop_assert_eq!(&batch.indices, &batch.data.0);
        }
        let found: Vec<Vec<(usize, u32)>> = found
            .into_iter()
            .map(|batch| batch.data.0.into_iter().zip(batch.data.1).collect())
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn ranks_share_one_order(
        len in 1..40_usize,
        world in 1..6_usize,
        batch_size in 1..5_usize,
        steps in 0..4_usize,
        pad in any::<bool>(),
        new_world in 1..6_usize,
    ) {
        let tail = if pad { Tail::Pad } else { Tail::Drop };
        let loader = |rank, world| {
            let data = Memory::new((0..len).collect())
                .map(|index: usize, cx| Ok((index, cx.rng().next_block()[0])));
            DataLoader::builder(data)
                .batch_size(batch_size)
                .shuffle(true)
                .shard(Shard::new(rank, world, tail).unwrap())
                .build()
                .unwrap()
        };
        let order = Shuffled.order(len, 0, &order_generator(0, 0)).unwrap();
        let order = order.into_vec().unwrap();
        let mut states = Vec::new();
        for rank in 0..world {
            let this = loader(rank, world);
            let mut epoch = this.epoch(0);
            let found: Vec<usize> =
                epoch.by_ref().take(steps).flat_map(|batch| batch.unwrap().indices).collect();
            let expected = Shard::new(rank, world, tail).unwrap().of(&order);
            let expected: Vec<_> = expected.into_iter().take(steps * batch_size).collect();
            prop_assert_eq!(found, expected);
            states.push(epoch.state().unwrap());
        }
        // Ranks that have taken the same steps have the same position.
        prop_assert!(states.iter().all(|state| state == &states[0]));
        let rest = &order[states[0].position as usize..];
        for rank in 0..new_world {
            let resumed = loader(rank, new_world);
            let found: Vec<usize> =
                resumed.resume(&states[0]).unwrap().flat_map(|b| b.unwrap().indices).collect();
            let shard = Shard::new(rank, new_world, tail).unwrap();
            if pad && rest.len() % new_world != 0 {
                // Padding comes from the start of the epoch.
                let whole = rest.len() / new_world;
                let expected = shard.of(rest);
                prop_assert_eq!(&found[..whole], &expected[..whole]);
                prop_assert_eq!(found.len(), whole + 1);
                let place = whole * new_world + rank;
                let last = rest.get(place).or_else(|| order.get((place - rest.len()) % len));
                prop_assert_eq!(Some(&found[whole]), last);
            } else {
                prop_assert_eq!(found, shard.of(rest));
            }
        }
    }
}

/// A batch sampler of samples of one parity.
#[derive(Debug)]
struct Parity;

impl BatchSampler for Parity {
    fn describe(&self) -> String {
        "parity".to_owned()
    }

    fn batches(&self, len: usize, _: u64, generator: &Generator) -> Result<Vec<Vec<usize>>> {
        let order = Shuffled.order(len, 0, generator)?.into_vec()?;
        let (odd, even): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|i| i % 2 == 1);
        Ok(odd.chunks(3).chain(even.chunks(2)).map(<[usize]>::to_vec).collect())
    }
}

#[test]
fn batch_samplers_resume_and_shard() {
    let loader = |workers, shard: Option<Shard>| {
        let builder = DataLoader::builder(Memory::new((0..23).collect::<Vec<i64>>()))
            .batch_sampler(Parity)
            .workers(workers);
        match shard {
            Some(shard) => builder.shard(shard).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let indices = |epoch: &mut dyn Iterator<Item = Result<_>>| -> Vec<Vec<usize>> {
        epoch.map(|batch: Result<samebits_data::Batch<Vec<i64>>>| batch.unwrap().indices).collect()
    };
    let expected = Parity.batches(23, 0, &order_generator(0, 0)).unwrap();
    for workers in [0, 1, 2, 4] {
        assert_eq!(indices(&mut loader(workers, None).epoch(0)), expected);
        let this = loader(workers, None);
        let mut epoch = this.epoch(0);
        indices(&mut epoch.by_ref().take(4));
        let state = epoch.state().unwrap();
        assert_eq!(state.position, 4);
        assert_eq!(indices(&mut loader(2, None).resume(&state).unwrap()), expected[4..]);
    }
    let ranks = [0, 1, 2].map(|rank| {
        let shard = Shard::new(rank, 3, Tail::Drop).unwrap();
        indices(&mut loader(0, Some(shard)).epoch(0))
    });
    for (place, batch) in expected[..9].iter().enumerate() {
        assert_eq!(&ranks[place % 3][place / 3], batch);
    }
}

/// A sampler whose indices exceed the dataset.
#[derive(Debug)]
struct Beyond;

impl Sampler for Beyond {
    fn describe(&self) -> String {
        "beyond".to_owned()
    }

    fn order(&self, len: usize, _: u64, _: &Generator) -> Result<Order> {
        Ok(vec![0, len].into())
    }
}

#[test]
fn an_order_ends_behind_its_last_place() {
    let ascending = Sequential.order(3, 0, &Generator::new(0)).unwrap();
    for order in [ascending, vec![0, 1, 2].into(), Order::computed(3, |place| place)] {
        assert_eq!([2, 3, 4].map(|place| order.at(place)), [Some(2), None, None]);
    }
}

#[test]
fn a_sampler_cannot_leave_the_dataset() {
    let data = Memory::new(vec![1_i64; 3]);
    let loader = DataLoader::builder(data).sampler(Beyond).workers(1).build().unwrap();
    let results: Vec<_> = loader.epoch(0).collect();
    assert_eq!(results.len(), 1);
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "sampler: index 3 is out of range for length 3");
}

/// A sampler of all samples, last to first, each position computed.
#[derive(Debug)]
struct Backwards {
    /// The distance by which the indices exceed the dataset.
    beyond: usize,
}

impl Sampler for Backwards {
    fn describe(&self) -> String {
        "backwards".to_owned()
    }

    fn order(&self, len: usize, _: u64, _: &Generator) -> Result<Order> {
        let beyond = self.beyond;
        Ok(Order::computed(len, move |place| len - 1 - place + beyond))
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// The same order as a list.
#[derive(Debug)]
struct Listed;

impl Sampler for Listed {
    fn describe(&self) -> String {
        "backwards".to_owned()
    }

    fn order(&self, len: usize, epoch: u64, generator: &Generator) -> Result<Order> {
        Ok(Backwards { beyond: 0 }.order(len, epoch, generator)?.into_vec()?.into())
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

#[test]
fn a_computed_order_is_its_list() {
    for len in [0, 1, 7, 23, 24] {
        for world in [1, 2, 3, 30] {
            for (rank, tail) in
                (0..world).flat_map(|rank| [Tail::Pad, Tail::Drop].map(|tail| (rank, tail)))
            {
                let epoch = |sampler: Box<dyn Sampler>, position| {
                    let data = Memory::new((0..len).collect())
                        .map(|index: usize, cx| Ok((index, cx.repeat(), cx.rng().next_block()[0])));
                    let loader = DataLoader::builder_with(data, samebits_data::Keep)
                        .batch_size(4)
                        .sampler(Boxed(sampler))
                        .shard(Shard::new(rank, world, tail).unwrap())
                        .build()
                        .unwrap();
                    let mut state = loader.epoch(0).state().unwrap();
                    state.position = position;
                    loader.resume(&state).unwrap().map(Result::unwrap).collect::<Vec<_>>()
                };
                for position in 0..=len as u64 {
                    let computed = epoch(Box::new(Backwards { beyond: 0 }), position);
                    assert_eq!(computed, epoch(Box::new(Listed), position), "{len}, {world}");
                }
            }
        }
    }
}

#[test]
fn a_computed_order_cannot_leave_the_dataset() {
    let data = Memory::new(vec![1_i64; 3]);
    let sampler = Backwards { beyond: 1 };
    let loader = DataLoader::builder(data).sampler(sampler).workers(1).build().unwrap();
    let results: Vec<_> = loader.epoch(0).collect();
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "sampler: index 3 is out of range for length 3");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2);
}

#[test]
fn ranks_share_a_billion_samples_by_a_bijection() {
    const LEN: usize = 1_000_000_000;
    let mut order = Bijective.order(1000, 0, &Generator::new(3)).unwrap().into_vec().unwrap();
    assert_ne!(order, (0..1000).collect::<Vec<_>>());
    order.sort_unstable();
    assert_eq!(order, (0..1000).collect::<Vec<_>>());

    let data = Memory::new(vec![(); LEN]).map(|(), cx| Ok(cx.index()));
    let data = std::sync::Arc::new(data);
    let order = Bijective.order(LEN, 7, &order_generator(5, 7)).unwrap();
    for rank in 0..256 {
        let loader = DataLoader::builder(data.clone())
            .batch_size(2)
            .sampler(Bijective)
            .seed(5)
            .shard(Shard::new(rank, 256, Tail::Pad).unwrap())
            .build()
            .unwrap();
        let batch = loader.epoch(7).next().unwrap().unwrap();
        let expected = [rank, rank + 256].map(|place| order.at(place).unwrap());
        assert_eq!(batch.data, expected);
    }
}
