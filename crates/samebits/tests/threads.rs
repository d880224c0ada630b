//! Numbers of threads beyond any machine.

use std::process::Command;
use std::time::Duration;

use samebits::{Tensor, ThreadsMissing, environment, on_threads};

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
        let x = Tensor::ones(&[1 << 20], samebits::DType::F32).unwrap();
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
