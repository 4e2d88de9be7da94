//! A Hermes that does not come up: what the person is told, and that nothing of it stays. The rest is proven with the real
//! one, in `tests/hermes/`.

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;

use hermesd::protocol::{Call, Nothing};

use crate::support::{Daemon, Home, eventually, program, until};
use crate::terminal::sessions::{open, say};

fn start(home: &Home, script: &str) -> (Daemon, std::path::PathBuf) {
    let (python, out) = program(home, "python", script);
    let daemon = home.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "hermes"),
        ("HERMESD_AGENTS_HERMES_PYTHON", &python),
    ]);
    (daemon, out)
}

#[tokio::test]
async fn one_that_ends_at_once_is_told_of_and_its_last_words_are_logged() {
    let home = Home::new();
    let (daemon, _) = start(&home, "echo 'No module named tui_gateway' >&2; exit 1");
    let talk = home.talk(&[], "hello\n");
    assert!(talk.error(0).contains("Hermes has ended"), "{talk:?}");
    assert!(!talk.error(0).contains("No module named"), "{talk:?}");
    assert!(daemon.log().contains("No module named"), "{}", daemon.log());
    // The words are kept all the same, once.
    assert_eq!(
        crate::inbound::chats::spoken(&home, &talk.session),
        ["user: hello"]
    );
}

#[tokio::test]
async fn one_that_never_gets_ready_does_not_outlive_the_turn() {
    let home = Home::new();
    let (daemon, out) = start(&home, "echo $$ > $OUT; exec sleep 1000");
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let stop = async {
        let pid = eventually("it is started", || async {
            std::fs::read_to_string(&out)
                .ok()?
                .trim()
                .parse::<i32>()
                .ok()
        })
        .await;
        let _: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
        pid
    };
    let (turn, pid) = tokio::join!(say(&client, "hello"), stop);
    assert!(turn.unwrap().interrupted);
    until("it ends", || {
        kill(Pid::from_raw(pid), None).is_err().then_some(())
    });
}
