//! Ctrl-C as a request to stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Listener for Ctrl-C. When it is dropped, Ctrl-C ends the process again, as without a handler.
pub(super) struct CtrlC(Arc<AtomicBool>);

/// The single handler of the process, installed by the first listener.
struct Handler {
    /// Set by Ctrl-C, and while there is no listener. If Ctrl-C finds it set, the process ends.
    pressed: Arc<AtomicBool>,
    listeners: usize,
}

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

impl CtrlC {
    pub(super) fn listen() -> io::Result<CtrlC> {
        let mut handler = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
        let handler = match &mut *handler {
            Some(handler) => handler,
            none => {
                let pressed = Arc::new(AtomicBool::new(true));
                // In this order: the first Ctrl-C must not find the flag that it sets itself.
                flag::register_conditional_default(SIGINT, pressed.clone())?;
                flag::register(SIGINT, pressed.clone())?;
                none.insert(Handler { pressed, listeners: 0 })
            }
        };
        if handler.listeners == 0 {
            handler.pressed.store(false, Ordering::SeqCst);
        }
        handler.listeners += 1;
        Ok(CtrlC(handler.pressed.clone()))
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for CtrlC {
    fn drop(&mut self) {
        let mut handler = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handler) = &mut *handler {
            handler.listeners -= 1;
            if handler.listeners == 0 {
                handler.pressed.store(true, Ordering::SeqCst);
            }
        }
    }
}
