//! Whole batches dealt to ranks are those of one loader, for any number of ranks.

use std::ops::Range;

use samebits_data::{
    Batch, Collate, DataLoader, Dataset, Deal, Determinism, Error, LoaderState, Result, Retry,
    SampleContext, Shard, Tail, WithReplacement,
};
use samebits_rng::Generator;

/// A dataset whose samples have noise of their own.
struct Noisy(usize);

impl Dataset for Noisy {
    type Item = (usize, u32);

    fn len(&self) -> usize {
        self.0
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        Ok((index, cx.rng().next_block()[0]))
    }
}

/// A collate function that keeps samples and draws for the batch.
struct Drawn;

impl Collate<(usize, u32)> for Drawn {
    type Batch = (Vec<(usize, u32)>, u32);

    fn collate(
        &self,
        samples: Vec<(usize, u32)>,
        generator: &mut Generator,
    ) -> Result<Self::Batch> {
        Ok((samples, generator.next_block()[0]))
    }
}

type Loader = DataLoader<Noisy, Drawn>;
type B = Batch<(Vec<(usize, u32)>, u32)>;

fn loader(workers: usize, repeats: bool) -> Loader {
    let loader = DataLoader::builder_with(Noisy(61), Drawn).batch_size(3).seed(4).workers(workers);
    let loader =
        if repeats { loader.sampler(WithReplacement::new(61)) } else { loader.shuffle(true) };
    loader.build().unwrap()
}

fn own(rank: u64, world: u64, per_step: u64) -> Range<u64> {
    rank * per_step / world..(rank + 1) * per_step / world
}

/// Returns the batches of one rank's steps, and the state after each.
fn steps(loader: &Loader, from: Option<&LoaderState>, deal: &Deal) -> Vec<(Vec<B>, LoaderState)> {
    let mut epoch = match from {
        Some(state) => loader.resume_dealt(state, deal).unwrap(),
        None => loader.epoch_dealt(1, deal).unwrap(),
    };
    let all = loader.batches_in(1).unwrap();
    let mut at = from.map_or(0, |state| state.batch);
    let mut steps = Vec::new();
    while at < all {
        let end = (at + deal.per_step).min(all);
        let owned = (at + deal.own.end).min(all).saturating_sub(at + deal.own.start);
        let batches = epoch.by_ref().take(owned as usize).collect::<Result<Vec<_>>>().unwrap();
        epoch.pass_to(end);
        steps.push((batches, epoch.state().unwrap()));
        at = end;
    }
    assert_eq!(epoch.remaining(), 0);
    assert!(epoch.next().is_none());
    steps
}

#[test]
fn ranks_together_load_what_one_loader_loads_and_stand_where_it_stands() {
    for repeats in [false, true] {
        let reference: Vec<B> = loader(0, repeats).epoch(1).collect::<Result<_>>().unwrap();
        assert_eq!(reference.len(), 21);
        for per_step in [1, 2, 4, 5, 8, 12, 30] {
            for world in 1..=per_step.min(9) {
                for workers in [0, 1, 3] {
                    let loader = loader(workers, repeats);
                    let ranks: Vec<_> = (0..world)
                        .map(|rank| Deal { per_step, own: own(rank, world, per_step) })
                        .map(|deal| steps(&loader, None, &deal))
                        .collect();
                    let count = ranks[0].len();
                    let together: Vec<B> = (0..count)
                        .flat_map(|step| ranks.iter().flat_map(move |rank| rank[step].0.clone()))
                        .collect();
                    assert!(together == reference, "{world} ranks, {per_step}, {workers} workers");
                    let mut alone = loader.epoch(1);
                    for step in 0..count {
                        alone
                            .by_ref()
                            .take(per_step as usize)
                            .for_each(|batch| drop(batch.unwrap()));
                        let state = alone.state().unwrap();
                        assert!(ranks.iter().all(|rank| rank[step].1 == state), "{step}, {world}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_state_goes_on_with_any_number_of_ranks_and_places() {
    let reference: Vec<B> = loader(0, false).epoch(1).collect::<Result<_>>().unwrap();
    let deal = |rank, world, per_step| Deal { per_step, own: own(rank, world, per_step) };
    for (stop, world, per_step) in [(1, 1, 4), (2, 3, 4), (3, 4, 5), (4, 2, 4)] {
        let state = &steps(&loader(2, false), None, &deal(0, 2, 4))[stop - 1].1;
        assert_eq!(state.batch, 4 * stop as u64);
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                steps(&loader(rank as usize, false), Some(state), &deal(rank, world, per_step))
            })
            .collect();
        let together: Vec<B> = (0..ranks[0].len())
            .flat_map(|step| ranks.iter().flat_map(move |rank| rank[step].0.clone()))
            .collect();
        assert!(together == reference[state.batch as usize..], "{stop}, {world}, {per_step}");
    }
}

/// Dealing single samples gives other batches for every number of ranks.
#[test]
fn a_shard_is_no_deal() {
    let of = |world| {
        let shard = Shard::new(0, world, Tail::Drop).unwrap();
        let loader = DataLoader::builder_with(Noisy(61), Drawn).batch_size(3).seed(4).shuffle(true);
        let loader = loader.shard(shard).build().unwrap();
        loader.epoch(1).next().unwrap().unwrap().indices
    };
    assert_ne!(of(1), of(2));
}

#[test]
fn what_cannot_be_dealt_out_is_refused() {
    let deal = Deal { per_step: 4, own: 1..3 };
    for wrong in [
        Deal { per_step: 0, own: 0..0 },
        Deal { per_step: 4, own: 3..5 },
        #[allow(clippy::reversed_empty_ranges, reason = "it is what is refused")]
        Deal { per_step: 4, own: 3..2 },
    ] {
        let error = loader(0, false).epoch_dealt(0, &wrong).unwrap_err();
        assert!(error.to_string().contains("deal"), "{error}");
    }
    // A rank without a position in a step is no error: there are more ranks than positions.
    let none = Deal { per_step: 4, own: 2..2 };
    let mut epoch = loader(2, false).epoch_dealt(0, &none).unwrap();
    assert!(epoch.next().is_none());
    epoch.pass_to(8);
    assert_eq!(epoch.state().unwrap().batch, 8);

    let builder = || DataLoader::builder_with(Noisy(61), Drawn).batch_size(3).seed(4);
    for (wrong, named) in [
        (builder().shard(Shard::new(0, 2, Tail::Drop).unwrap()).build(), "shard"),
        (builder().level(Determinism::NotGuaranteed).ordered(false).workers(1).build(), "ordered"),
        (builder().level(Determinism::RunToRun).build(), "level"),
        (builder().retry(Retry::default().skip(2)).build(), "retry"),
    ] {
        let loader = wrong.unwrap();
        let error = loader.epoch_dealt(0, &deal).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
        let state = self::loader(0, false).epoch(0).state().unwrap();
        assert!(loader.resume_dealt(&state, &deal).is_err());
    }
}
