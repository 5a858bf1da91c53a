//! The terminal, borrowed: whatever happens, it is given back as it was.

use std::io;
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};

use crate::history::Recent;
use crate::{Display, view};

/// The alternate screen in raw mode, for as long as this lives.
pub(crate) struct Screen(DefaultTerminal);

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        // It may fail half way, after it has set the raw mode.
        ratatui::try_init().map(Screen).inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone there is nothing to restore.
        let _ = self.0.show_cursor();
        // In a panic, the hook that ratatui installs has done so before the message; to leave the
        // screen twice would put the cursor back on top of it.
        if !thread::panicking() {
            restore();
        }
    }
}

fn restore() {
    let _ = ratatui::try_restore();
}

impl Display for Screen {
    fn show(&mut self, recent: &Recent<'_>) -> io::Result<()> {
        self.0.draw(|frame| view::render(frame, recent))?;
        Ok(())
    }

    fn pause(&mut self, time: Duration) -> io::Result<bool> {
        if !event::poll(time)? {
            return Ok(false);
        }
        Ok(matches!(event::read()?, Event::Key(key) if is_end(key)))
    }
}

fn is_end(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}
