//! The CPU engine's two layers, through the public interface.

mod handover;
mod hazards;
mod pipeline;

use std::{
    io::Write,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Runs `test`, and aborts the process after a minute, so that a hang is a failure.
fn watched<R>(what: &str, test: impl FnOnce() -> R) -> R {
    /// Tells the watchdog that the test ended, by a panic too.
    struct Ended(Arc<(Mutex<bool>, Condvar)>);
    impl Drop for Ended {
        fn drop(&mut self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_all();
        }
    }
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let what = what.to_owned();
    let watchdog = std::thread::spawn({
        let ended = ended.clone();
        move || {
            let guard = ended.0.lock().unwrap();
            let waited = ended.1.wait_timeout_while(guard, Duration::from_secs(60), |ended| !*ended);
            if waited.unwrap().1.timed_out() {
                // Not eprintln: the test harness would hold it back until the test ends.
                let _ = writeln!(std::io::stderr(), "{what}: still running after a minute, taken for a hang");
                std::process::abort();
            }
        }
    });
    let result = {
        let _ended = Ended(ended);
        test()
    };
    watchdog.join().unwrap();
    result
}
