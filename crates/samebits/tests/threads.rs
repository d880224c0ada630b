//! Numbers of threads beyond any machine, and the threads that long calls take.

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use cpu_time::ThreadTime;
use rayon::{ThreadPool, ThreadPoolBuilder};
use samebits::ops::ConvParams;
use samebits::{
    DType, Generator, Result, Tensor, ThreadsMissing, environment, functional as f, on_threads,
};

#[test]
fn more_threads_than_any_machine_has_are_refused() {
    for threads in [1025, 20_000, usize::MAX] {
        let error = on_threads(Some(threads), || ()).unwrap_err();
        assert!(matches!(error, ThreadsMissing::TooMany { most: 1024, .. }), "{error:?}");
        let expected = format!("on_threads: expected at most 1024 threads, got {threads}");
        assert_eq!(error.to_string(), expected);
    }
    // As many as the caller has.
    let many = |threads| on_threads(Some(threads), || environment().threads);
    assert_eq!(on_threads(Some(3), || many(0).unwrap()).unwrap(), 3);
}

/// The variable set in the process whose environment asks for too many threads.
const CHILD: &str = "SAMEBITS_TEST_THREADS";

#[test]
fn the_environment_starts_no_more_either() {
    if std::env::var_os(CHILD).is_some() {
        let x = Tensor::ones(&[1 << 20], DType::F32).unwrap();
        assert_eq!(x.sum(..).unwrap().item::<f32>().unwrap(), 1048576.0);
        assert_eq!(environment().threads, 1024);
        assert_eq!(on_threads(Some(0), || environment().threads).unwrap(), 1024);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_environment_starts_no_more_either"]);
    child.env(CHILD, "1").env("RAYON_NUM_THREADS", "20000");
    let (sender, ended) = std::sync::mpsc::channel();
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    std::thread::spawn(move || sender.send(std::io::read_to_string(&mut out)));
    // It would take an hour.
    let out = ended.recv_timeout(Duration::from_secs(300));
    let _ = child.kill();
    assert!(child.wait().unwrap().success());
    assert!(out.unwrap().unwrap().contains("1 passed"));
}

thread_local! {
    static START: Cell<Option<ThreadTime>> = const { Cell::new(None) };
}

/// Returns the shares of the processor time of calls that the threads of a pool take. The calling
/// thread computes long enough for another to wake up on a machine in use.
fn shares(pool: &ThreadPool, call: impl Fn() + Sync) -> Vec<f64> {
    pool.broadcast(|_| START.set(Some(ThreadTime::now())));
    // All by one thread, from which the others may take work.
    pool.install(|| {
        let start = ThreadTime::now();
        while start.elapsed() < Duration::from_millis(40) {
            call();
        }
    });
    let times: Vec<Duration> = pool.broadcast(|_| START.get().expect("set above").elapsed());
    let all: Duration = times.iter().sum();
    times.iter().map(|time| time.as_secs_f64() / all.as_secs_f64()).collect()
}

/// The smallest share of each thread. A call of one thread leaves others less than a hundredth. Half
/// is due to each, but a thread that other processes keep waiting for milliseconds comes too late for
/// most calls of one millisecond.
const SHARE: f64 = 0.04;

/// The number of attempts, since a machine in use may let one thread finish before another starts: beside
/// six other processes on two cores, fewer than four of fifty were shared. A few suffice on an idle one.
const ATTEMPTS: usize = 400;

/// The number of attempts that must be shared: on a machine in use, a thread that only looks for work
/// may once take as long.
const SHARED: usize = 4;

fn is_shared(pool: &ThreadPool, attempts: usize, call: impl Fn() + Sync) -> bool {
    let attempts = (0..attempts).map(|_| shares(pool, &call));
    let shared = attempts.filter(|shares| shares.iter().all(|&share| share > SHARE));
    shared.take(SHARED).count() == SHARED
}

#[test]
fn threads_sleep_soon_after_a_call() {
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let x = Tensor::ones(&[1 << 20], DType::F32).unwrap();
    pool.install(|| (0..20).for_each(|_| drop(x.exp().unwrap())));
    std::thread::sleep(Duration::from_millis(20));
    pool.broadcast(|_| START.set(Some(ThreadTime::now())));
    std::thread::sleep(Duration::from_millis(200));
    let times = pool.broadcast(|_| START.get().expect("set above").elapsed());
    assert!(times.iter().all(|time| time.as_millis() < 20), "{times:?}");
}

type Call<'a> = Box<dyn Fn() -> Result<Tensor> + Sync + 'a>;

#[test]
fn a_call_of_one_thread_would_be_seen() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let alone = || {
        std::hint::black_box((0..1 << 18).fold(0u64, |sum, i| std::hint::black_box(sum ^ i)));
    };
    assert!(!is_shared(&pool, ATTEMPTS / 8, alone));
}

#[test]
fn long_calls_take_all_threads() -> Result<()> {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let normal = |shape: &[usize], seed| f::randn_with(shape, &mut Generator::new(seed));
    let x = normal(&[2000, 1000], 1)?;
    let y = normal(&[2000, 1000], 2)?;
    let [row, column] = [normal(&[1000], 3)?, normal(&[2000, 1], 4)?];
    let long = f::reshape(&x, [-1])?;
    // Its sums and copies take milliseconds too, in which another thread wakes up on a machine in use.
    let many = Tensor::ones(&[4096, 4096], DType::F32)?;
    let square = normal(&[600, 600], 5)?;
    let images = normal(&[8, 16, 40, 40], 6)?;
    let params = ConvParams::padded(2, 1);
    let filters = normal(&[32, 16, 3, 3], 7)?;
    let heads = normal(&[2, 4, 200, 32], 8)?;
    let places = Tensor::arange(2000)?.remainder(50)?;
    let targets = Tensor::arange(2000)?.remainder(1000)?;
    let rows = Tensor::arange(4096)?;
    let learned = x.clone().set_requires_grad(true)?;
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("exp", Box::new(|| x.exp())),
        ("add", Box::new(|| &x + &y)),
        ("add, broadcast", Box::new(|| &x + &row)),
        ("formula", Box::new(|| f::huber_loss(&x, &y, 1.0, f::Reduction::None))),
        ("formula, broadcast", Box::new(|| f::lerp(&x, &row, &column))),
        ("sum of all", Box::new(|| many.sum_all())),
        ("sum of rows", Box::new(|| f::sum(&many, [1], false))),
        ("sum of columns", Box::new(|| f::sum(&many, [0], false))),
        ("softmax", Box::new(|| f::softmax(&x, 1))),
        ("softmax of columns", Box::new(|| f::softmax(&x, 0))),
        ("cross_entropy", Box::new(|| f::cross_entropy(&x, &targets))),
        ("layer_norm", Box::new(|| f::layer_norm(&x, &[1000], None, None, 1e-5))),
        ("matmul", Box::new(|| f::matmul(&square, &square))),
        ("matmul of a vector", Box::new(|| f::matmul(&x, &row))),
        ("conv2d", Box::new(|| f::conv2d(&images, &filters, None, &params))),
        (
            "attention",
            Box::new(|| {
                f::scaled_dot_product_attention(&heads, &heads, &heads, None, 0.0, true, None)
            }),
        ),
        ("index_select", Box::new(|| f::index_select(&many, 0, &rows))),
        ("index_add", Box::new(|| f::index_add(&square, 0, &places, &x.narrow(1, 0, 600)?, 1.0))),
        (
            "index_add of columns",
            Box::new(|| f::index_add(&y, 1, &targets, &f::cat(&[&x, &y], 1)?, 1.0)),
        ),
        ("cumsum", Box::new(|| f::cumsum(&x, 1))),
        ("sort", Box::new(|| Ok(f::sort(&x, 1, false)?.0))),
        ("transpose", Box::new(|| f::reshape(&x.t()?, [-1]))),
        ("randn", Box::new(|| f::randn_with(&[2_000_000], &mut Generator::new(1)))),
        ("dropout", Box::new(|| f::dropout_with(&long, 0.3, &mut Generator::new(1)))),
        (
            "a backward pass",
            Box::new(|| {
                let loss = f::softmax(&learned.tanh()?, 1)?.square()?.sum_all()?;
                Ok(loss.backward()?.of(&learned).expect("a gradient").clone())
            }),
        ),
    ];
    let mut alone = Vec::new();
    for (name, call) in calls {
        call()?;
        let run = || {
            call().expect("it has run before");
        };
        if !is_shared(&pool, ATTEMPTS, run) {
            alone.push(name);
        }
    }
    assert!(alone.is_empty(), "these take one thread: {alone:?}");
    Ok(())
}
