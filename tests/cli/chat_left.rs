//! A terminal leaves in the middle of an answer. Whatever way it goes, what was said and streamed so far is kept once,
//! the session ends once, and the hook hears of it once.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cli::chat::{CTRL_C, STANDS_STILL, chat, ended, rows, said, sessions};
use crate::support::pty::Terminal;
use crate::support::{Daemon, Home, program, told, until};

const KEPT: [&str; 2] = ["user: Hello there", "assistant: You (interrupted)"];

/// A chat whose agent has said one word and will say no more.
struct Scene {
    terminal: Terminal,
    daemon: Option<Daemon>,
    hook: String,
    told: PathBuf,
    home: Home,
}

impl Scene {
    fn open() -> Scene {
        Self::with_hook("cat >> $OUT")
    }

    fn with_hook(script: &str) -> Scene {
        let home = Home::new();
        let (hook, told) = program(&home, "hook", script);
        let daemon = start(&home, &hook);
        let terminal = chat(&home);
        terminal.say("Hello there");
        terminal.shows("\nYou");
        Scene {
            terminal,
            daemon: Some(daemon),
            hook,
            told,
            home,
        }
    }

    fn daemon(&mut self) -> Daemon {
        self.daemon.take().expect("a daemon")
    }

    /// The hooks that are due have run when the daemon has stopped.
    fn all_is_kept_once(mut self) {
        until("the session ends", || {
            (sessions(&self.home) == [ended("cli", "cli_close")]).then_some(())
        });
        if let Some(daemon) = self.daemon.take() {
            assert!(daemon.stop().success());
        }
        self.all_is_kept();
        let told = told(&self.told);
        assert_eq!(told.len(), 1, "{told:?}");
        let id: String = rows(&self.home, "SELECT id FROM sessions", |row| row.get(0)).remove(0);
        let facts = [
            ("event", Value::from("on_session_end")),
            ("session_id", id.into()),
            ("completed", false.into()),
            ("interrupted", true.into()),
            ("model", "echo".into()),
            ("platform", "cli".into()),
        ];
        for (name, fact) in facts {
            assert_eq!(told[0][name], fact, "{name} in {told:?}");
        }
    }

    fn all_is_kept(&self) {
        assert_eq!(said(&self.home), KEPT);
        assert_eq!(sessions(&self.home), [ended("cli", "cli_close")]);
        for left in ["hermesd_terminals", "hermesd_turns WHERE running <> 0"] {
            let left = rows(&self.home, &format!("SELECT 1 FROM {left}"), |_| Ok(()));
            assert!(left.is_empty());
        }
    }
}

fn start(home: &Home, hook: &str) -> Daemon {
    home.start_with(&[STANDS_STILL, ("HERMESD_HOOKS_ON_SESSION_END", hook)])
}

#[test]
fn a_terminated_chat_keeps_what_was_streamed() {
    let mut scene = Scene::open();
    scene.terminal.signal(Signal::SIGTERM);
    assert_eq!(scene.terminal.end(), 143);
    assert!(scene.terminal.is_as_found());
    scene.all_is_kept_once();
}

#[test]
fn a_chat_that_is_sent_a_hangup_keeps_what_was_streamed() {
    let mut scene = Scene::open();
    scene.terminal.signal(Signal::SIGHUP);
    assert_eq!(scene.terminal.end(), 129);
    assert!(scene.terminal.is_as_found());
    scene.all_is_kept_once();
}

#[test]
fn a_closed_window_keeps_what_was_streamed() {
    let mut scene = Scene::open();
    scene.terminal.hang_up();
    scene.terminal.end();
    scene.all_is_kept_once();
}

#[test]
fn a_killed_chat_keeps_what_was_streamed() {
    let mut scene = Scene::open();
    scene.terminal.signal(Signal::SIGKILL);
    assert_eq!(scene.terminal.end(), -1);
    scene.all_is_kept_once();
}

#[test]
fn quitting_in_the_middle_of_an_answer_keeps_what_was_streamed() {
    let mut scene = Scene::open();
    scene.terminal.type_line("/quit");
    assert_eq!(scene.terminal.end(), 0);
    assert!(scene.terminal.is_as_found());
    scene.all_is_kept_once();
}

#[test]
fn a_daemon_that_is_cut_off_keeps_what_was_streamed_and_its_chats_say_so() {
    let mut scene = Scene::open();
    assert!(scene.daemon().cut_off().success());
    scene.terminal.shows("The daemon went away.");
    scene.terminal.press(CTRL_C);
    assert_eq!(scene.terminal.end(), 6);
    assert!(
        scene
            .terminal
            .screen()
            .contains("the connection to the daemon was lost")
    );
    assert!(scene.terminal.is_as_found());
    scene.all_is_kept_once();
}

#[test]
fn what_a_killed_daemon_had_streamed_is_kept_by_the_next() {
    let mut scene = Scene::open();
    until("what is streamed is kept", || {
        let partial = "SELECT 1 FROM hermesd_turns WHERE partial = 'You '";
        let kept = rows(&scene.home, partial, |_| Ok(()));
        (!kept.is_empty()).then_some(())
    });
    scene.daemon().kill();
    scene.terminal.shows("The daemon went away.");
    scene.terminal.press(CTRL_C);
    assert_eq!(scene.terminal.end(), 6);
    assert!(
        scene
            .terminal
            .screen()
            .contains("the connection to the daemon was lost")
    );
    scene.daemon = Some(start(&scene.home, &scene.hook));
    scene.all_is_kept_once();
}

#[test]
fn a_hook_that_fails_changes_nothing_of_the_end() {
    let mut scene = Scene::with_hook("cat >> $OUT; exit 1");
    scene.terminal.signal(Signal::SIGTERM);
    assert_eq!(scene.terminal.end(), 143);
    let daemon = scene.daemon.as_ref().expect("a daemon");
    until("the hook has failed", || {
        daemon.log().contains("hook failed").then_some(())
    });
    scene.all_is_kept_once();
}

#[test]
fn ctrl_c_interrupts_the_answer_and_a_second_one_leaves() {
    let mut scene = Scene::open();
    scene.terminal.press(CTRL_C);
    scene.terminal.shows("(interrupted)");
    scene.terminal.prompts();
    assert_eq!(said(&scene.home), KEPT);
    scene.terminal.press(CTRL_C);
    assert_eq!(scene.terminal.end(), 0);
    assert!(scene.terminal.is_as_found());
    scene.all_is_kept();
}

#[test]
fn a_chat_goes_on_after_an_interrupted_answer() {
    let scene = Scene::open();
    scene.terminal.press(CTRL_C);
    scene.terminal.shows("(interrupted)");
    scene.terminal.say("And now?");
    scene.terminal.shows_times("\nYou", 2);
    scene.terminal.type_line("/stop");
    scene.terminal.shows_times("(interrupted)", 2);
    scene.terminal.prompts();
    let again = ["user: And now?", "assistant: You (interrupted)"];
    assert_eq!(said(&scene.home), [KEPT, again].concat());
}

#[test]
fn two_ctrl_cs_at_the_prompt_leave_and_anything_typed_between_them_forgets_the_first() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    terminal.prompts();
    terminal.press(CTRL_C);
    terminal.shows("Ctrl-C again leaves");
    terminal.say("/stop");
    terminal.shows("nothing to stop");
    terminal.prompts();
    terminal.press(CTRL_C);
    terminal.shows_times("Ctrl-C again leaves", 2);
    terminal.prompts();
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_chat_that_is_terminated_at_its_prompt_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    terminal.prompts();
    terminal.signal(Signal::SIGTERM);
    assert_eq!(terminal.end(), 143);
    assert!(terminal.is_as_found());
}

#[test]
fn a_window_that_is_closed_at_the_prompt_ends_the_session() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    terminal.say("Hello there");
    terminal.shows("You said");
    terminal.prompts();
    terminal.hang_up();
    terminal.end();
    until("the session ends", || {
        (sessions(&home) == [ended("cli", "cli_close")]).then_some(())
    });
}

#[test]
fn a_chat_in_which_nothing_was_said_leaves_nothing_behind() {
    let home = Home::new();
    let (hook, told) = program(&home, "hook", "cat >> $OUT");
    let daemon = home.start_with(&[("HERMESD_HOOKS_ON_SESSION_END", &hook)]);
    let mut terminal = chat(&home);
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    let mut killed = chat(&home);
    killed.prompts();
    killed.signal(Signal::SIGKILL);
    killed.end();
    // The hooks that are due have run when it has stopped.
    assert!(daemon.stop().success());
    assert_eq!(sessions(&home), []);
    assert!(!told.exists());
}
