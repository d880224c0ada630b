//! Sums are equal for every number of ranks, and no rank waits for one that has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samebits_autograd::Tensor;
use samebits_autograd::optim::TreeSum;
use samebits_distributed::{Error, Held, Ranks, Result, Threads, Transport, threads};
use samebits_rng::Generator;

/// Returns gradients of micro-batches: numbers of both signs over forty powers of two, zeros and
/// NaNs.
fn gradients(micro_batches: usize, len: usize) -> Vec<Vec<f32>> {
    let mut generator = Generator::new(micro_batches as u64 * 1000 + len as u64);
    let mut value = || {
        let [bits, other, ..] = generator.next_block();
        match other % 64 {
            0 => f32::from_bits(0xffc1_2345),
            1 => -0.0,
            2 => 0.0,
            _ => f32::from_bits((bits & 0x807f_ffff) | ((100 + other % 40) << 23)),
        }
    };
    (0..micro_batches).map(|_| (0..len).map(|_| value()).collect()).collect()
}

/// Computes what a trainer on one rank does, with operations on tensors.
fn alone(gradients: &[Vec<f32>]) -> Vec<u32> {
    bits(&tree(0, gradients).finish(add).unwrap().unwrap().to_vec::<f32>().unwrap())
}

fn tree(first: u64, gradients: &[Vec<f32>]) -> TreeSum<Tensor> {
    let mut sum = TreeSum::starting_at(first);
    for gradient in gradients {
        sum.push(Tensor::from_slice(gradient, &[gradient.len()]).unwrap(), add).unwrap();
    }
    sum
}

fn add(a: Tensor, b: Tensor) -> samebits_autograd::Result<Tensor> {
    a.add(&b)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Returns the result of rank `transport.rank()` for a step of `places` micro-batches.
fn on_a_rank(
    transport: impl Transport + 'static,
    gradients: &[Vec<f32>],
    places: usize,
    piece: usize,
) -> Result<Vec<u32>> {
    let ranks = Ranks::new(transport).piece(piece);
    let own = ranks.owned(places as u64);
    let cut = |at: u64| (at as usize).min(gradients.len());
    let nodes = tree(own.start, &gradients[cut(own.start)..cut(own.end)]).into_nodes();
    let held = ranks.gather(Ok::<_, String>(nodes.iter().map(Held::of).collect::<Vec<_>>()))?;
    let own: Vec<&[f32]> = nodes.iter().map(|node| node.sum.value().as_slice().unwrap()).collect();
    Ok(bits(&ranks.sum(&held, &own)?))
}

#[test]
fn the_sum_is_that_of_one_rank_for_every_number_of_ranks_and_every_piece() {
    const LEN: usize = 301;
    let mut cases = 0;
    for places in 1..=12usize {
        // The last step of an epoch may be short, so that some ranks have nothing.
        for count in [places, places.div_ceil(2), 1] {
            let gradients = Arc::new(gradients(count, LEN));
            let expected = alone(&gradients);
            for world in 1..=places {
                for piece in [4, 100, 1 << 20] {
                    let gradients = Arc::clone(&gradients);
                    let on_a_rank =
                        move |transport| on_a_rank(transport, &gradients, places, piece);
                    let sums = threads::run(world, on_a_rank).unwrap();
                    for sum in sums {
                        assert!(sum == expected, "{count} of {places}, {world} ranks, {piece}");
                    }
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 3 * 3 * 78);
}

#[test]
fn f64_and_no_element_at_all_work_too() {
    let sums = threads::run(3, |transport| {
        let ranks = Ranks::new(transport);
        let first = ranks.rank() as u64;
        let held = ranks.gather(Ok::<_, String>(vec![Held { first, level: 0 }]))?;
        let empty = ranks.sum::<f32>(&held, &[&[]])?;
        assert!(empty.is_empty());
        ranks.sum(&held, &[&[0.1f64 * (first + 1) as f64, 1.0]])
    });
    assert!(sums.unwrap().iter().all(|sum| sum == &[(0.1 + 0.2) + 0.1 * 3.0, 3.0]));
}

/// A transport that delays one call in eight at random.
struct Slow(Threads, std::sync::Mutex<Generator>);

impl Transport for Slow {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn world(&self) -> usize {
        self.0.world()
    }

    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()> {
        let [is_late, micros, ..] = self.1.lock().unwrap().next_block();
        if is_late.is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(u64::from(micros % 2000)));
        }
        self.0.exchange(send, receive)
    }

    fn abort(&self, cause: &str) {
        self.0.abort(cause);
    }
}

#[test]
fn delays_change_nothing() {
    let gradients = Arc::new(gradients(12, 100));
    let expected = alone(&gradients);
    for seed in 0..10 {
        let gradients = Arc::clone(&gradients);
        let sums = threads::run(5, move |transport: Threads| {
            let generator = Generator::new(seed).fold_in(transport.rank() as u64);
            on_a_rank(Slow(transport, generator.into()), &gradients, 12, 64)
        });
        assert!(sums.unwrap().iter().all(|sum| *sum == expected), "{seed}");
    }
}

/// Sums as other systems do: each rank adds its micro-batches, then the ranks' sums are added.
fn all_reduce(transport: Threads, gradients: &[Vec<f32>], backwards: bool) -> Result<Vec<u32>> {
    let ranks = Ranks::new(transport);
    let own = ranks.owned(gradients.len() as u64);
    let fold = |parts: Vec<Vec<f32>>| {
        let add = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
        parts.into_iter().reduce(add).unwrap()
    };
    let own = fold(gradients[own.start as usize..own.end as usize].to_vec());
    let parts = ranks.transport().all_gather(bytemuck::cast_slice(&own))?;
    let mut parts: Vec<Vec<f32>> = parts.iter().map(|x| bytemuck::pod_collect_to_vec(x)).collect();
    if backwards {
        parts.reverse();
    }
    Ok(bits(&fold(parts)))
}

/// The negative control: with these numbers, orders differ.
#[test]
fn a_float_all_reduce_and_another_order_show() {
    let gradients = Arc::new(gradients(12, 400));
    let expected = alone(&gradients);
    for world in [1, 2, 3, 5, 12] {
        for backwards in [false, true] {
            let gradients = Arc::clone(&gradients);
            let reduced = move |transport| all_reduce(transport, &gradients, backwards);
            let sums = threads::run(world, reduced).unwrap();
            assert!(sums.iter().all(|sum| *sum != expected), "{world}");
        }
    }
}

#[test]
fn bytes_of_any_length_are_gathered_and_broadcast() {
    let gathered = threads::run(4, |transport: Threads| {
        let rank = transport.rank();
        let mut news = vec![rank as u8; rank];
        transport.broadcast(2, &mut news)?;
        assert_eq!(news, [2, 2]);
        assert!(transport.broadcast(4, &mut news).is_err());
        transport.all_gather(&vec![rank as u8; 3 - rank])
    });
    let expected: [&[u8]; 4] = [&[0, 0, 0], &[1, 1], &[2], &[]];
    assert!(gathered.unwrap().iter().all(|all| *all == expected));
    assert!(Threads::new(0).is_err());
    assert!(Threads::new(1025).is_err());
}

/// Runs three ranks, of which rank 1 calls `bad` in the second round.
fn with_a_bad_rank(bad: fn(&Threads) -> Result<()>) -> (Vec<Result<()>>, Duration) {
    let began = Instant::now();
    let threads: Vec<_> = Threads::new(3).unwrap().into_iter().collect();
    let spawn = |transport: Threads| {
        std::thread::spawn(move || {
            let transport = transport.timeout(Duration::from_secs(2));
            transport.all_gather(b"first")?;
            if transport.rank() == 1 {
                return bad(&transport);
            }
            transport.all_gather(b"second")?;
            transport.all_gather(b"third").map(|_| ())
        })
    };
    let threads: Vec<_> = threads.into_iter().map(spawn).collect();
    let ends = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(()))).collect();
    (ends, began.elapsed())
}

#[test]
fn nobody_waits_for_a_rank_that_has_gone() {
    let (ends, took) = with_a_bad_rank(|_| Ok(()));
    for waiting in [0, 2] {
        let error = ends[waiting].as_ref().unwrap_err();
        assert!(matches!(error, Error::Gone { rank: 1, .. }), "{error}");
    }
    assert!(took < Duration::from_secs(2), "ended: {took:?}");

    let (ends, took) = with_a_bad_rank(|_| panic!("planted"));
    for waiting in [0, 2] {
        let error = ends[waiting].as_ref().unwrap_err();
        assert_eq!(error.to_string(), "rank 1: its thread panicked");
    }
    assert!(took < Duration::from_secs(2), "panicked: {took:?}");

    let (ends, took) = with_a_bad_rank(|transport| {
        transport.abort("the disk is full");
        Ok(())
    });
    for waiting in [0, 2] {
        let error = ends[waiting].as_ref().unwrap_err();
        assert_eq!(error.to_string(), "rank 1: the disk is full");
    }
    assert!(took < Duration::from_secs(2), "aborted: {took:?}");

    // A rank that hangs is given up after the timeout.
    let (ends, took) = with_a_bad_rank(|_| {
        std::thread::sleep(Duration::from_secs(4));
        Ok(())
    });
    let error = ends[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "rank 1 has not answered rank 0 for 2s");
    assert!(took < Duration::from_secs(8), "hung: {took:?}");

    // Ranks that make different calls get an error.
    let (ends, _) = with_a_bad_rank(|transport| {
        let (mut a, mut c) = ([0; 3], [0; 3]);
        transport.exchange(&[b"odd", b"", b"odd"], &mut [&mut a, &mut [], &mut c])
    });
    let error = ends[0].as_ref().unwrap_err();
    assert!(matches!(error, Error::Message { rank: 1, .. }), "{error}");
}

#[test]
fn the_error_of_a_run_is_that_of_the_rank_that_failed() {
    let failing = |transport: Threads| {
        let ranks = Ranks::new(transport);
        ranks.gather(Ok::<_, String>(1))?;
        if ranks.rank() == 2 {
            return Err(Error::Invalid("a broken file".to_owned()));
        }
        ranks.gather(Ok::<_, String>(2))
    };
    let error = threads::run(4, failing).unwrap_err();
    assert_eq!(error.to_string(), "ranks: a broken file");
    let panics = || {
        threads::run(3, |transport: Threads| -> Result<()> {
            if transport.rank() == 1 {
                panic!("planted");
            }
            transport.all_gather(b"").map(|_| ())
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"planted"));
    // If a rank passes an error, all ranks end with it, naming that rank.
    let ends = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&ends);
    let result = threads::run(3, move |transport| {
        let ranks = Ranks::new(transport);
        let own = if ranks.rank() == 1 { Err("batch 7: no such file") } else { Ok(0) };
        let error = ranks.gather(own).unwrap_err();
        kept.lock().unwrap().push(error.to_string());
        Err::<(), _>(error)
    });
    assert!(result.is_err());
    assert_eq!(*ends.lock().unwrap(), ["rank 1: batch 7: no such file"; 3]);
}

#[test]
fn ranks_that_were_not_started_alike_are_named() {
    let agree = |odd: &'static [usize]| {
        threads::run(5, move |transport| {
            let ranks = Ranks::new(transport);
            let seed = if odd.contains(&ranks.rank()) { "8" } else { "7" };
            ranks.agree(&[("version", "0.1".to_owned()), ("seed", seed.to_owned())])
        })
    };
    agree(&[]).unwrap();
    agree(&[0, 1, 2, 3, 4]).unwrap();
    for (odd, named) in [
        (&[3][..], "one seed, but rank 3 differs from the others: [\"7\", \"8\"]"),
        (&[0], "one seed, but rank 0 differs"),
        (&[0, 4], "one seed, but ranks 0, 4 differ"),
        (&[0, 1, 2], "one seed, but ranks 3, 4 differ"),
    ] {
        let error = agree(odd).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn nodes_that_do_not_make_a_tree_are_refused() {
    let sum = |first: fn(u64) -> u64, len: fn(usize) -> usize| {
        threads::run(2, move |transport| {
            let ranks = Ranks::new(transport);
            let held = Held { first: first(ranks.rank() as u64), level: 0 };
            let held = ranks.gather(Ok::<_, String>(vec![held]))?;
            ranks.sum(&held, &[&vec![1.0f32; len(ranks.rank())][..]])
        })
    };
    sum(|rank| rank, |_| 5).unwrap();
    assert!(matches!(sum(|rank| rank, |rank| 5 + rank).unwrap_err(), Error::Message { .. }));
    assert!(matches!(sum(|rank| 1 - rank, |_| 5).unwrap_err(), Error::Tensor(_)));
    assert!(matches!(sum(|rank| rank + 1, |_| 5).unwrap_err(), Error::Tensor(_)));
}

#[test]
fn every_rank_learns_of_a_difference_by_itself() {
    for round in 0..500 {
        let told = threads::run(5, move |transport| -> Result<Vec<usize>> {
            let ranks = Ranks::new(transport);
            let seed = if ranks.rank() == round % 5 { "8" } else { "7" };
            match ranks.agree(&[("seed", seed.to_owned())]) {
                Err(Error::Unlike { odd, .. }) => Ok(odd),
                other => panic!("rank {} was told {other:?}", ranks.rank()),
            }
        });
        assert_eq!(told.unwrap(), vec![vec![round % 5]; 5]);
    }
}
