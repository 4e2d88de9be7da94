//! Sessions that Hermes has open between turns, with a backend of the tests' own: only few stay open.

use hermesd::agent::hermes::Hermes;
use hermesd::domain::transcript::Transcript;
use tokio_util::sync::CancellationToken;

use crate::agent::files::{IDLE, ask_in, runs};
use crate::support::{Home, eventually, program, told};

/// Its name of a session is ours with `live-` before it. A turn in the session `slow` never ends.
const BACKEND: &str = r#"
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
event() { echo "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"type\":\"$1\",\"session_id\":\"$session\",\"payload\":$2}}"; }
event gateway.ready null
while read -r line; do
  printf '%s\n' "$line" >> $OUT
  id=$(printf '%s\n' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  session=$(printf '%s\n' "$line" | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
  case $line in
    *session.resume*) answer "\"result\":{\"session_id\":\"live-$session\"}" ;;
    *prompt.submit*)
      answer '"result":{"status":"streaming"}'
      [ "$session" = live-slow ] || event message.complete '{"text":"Yes.","status":"complete"}' ;;
    *) answer '"result":{}' ;;
  esac
done
"#;

#[tokio::test]
async fn the_least_recently_used_sessions_are_closed_and_one_in_a_turn_is_not() {
    let home = Home::new();
    let (python, got) = program(&home, "python", BACKEND);
    let hermes = Hermes::new(runs(&python, "hermes", &[]), IDLE);
    let (nothing, go_on, stop) = (
        Transcript::default(),
        CancellationToken::new(),
        CancellationToken::new(),
    );
    let asked = |method: &str| -> Vec<String> {
        let lines = told(&got).into_iter();
        let lines = lines.filter(|line| line["method"] == method);
        let session = lines.map(|line| line["params"]["session_id"].as_str().unwrap().to_owned());
        session.collect()
    };
    let slow = ask_in(&home, &hermes, "slow", &nothing, &[], &stop);
    let others = async {
        eventually("the long turn has begun", || async {
            asked("prompt.submit").first().cloned()
        })
        .await;
        for number in 1..=12 {
            let session = format!("s{number}");
            let reply = ask_in(&home, &hermes, &session, &nothing, &[], &go_on).await;
            assert_eq!(reply.unwrap().text, "Yes.");
        }
        // Of the thirteen, eight stay open: the long turn's and the last seven.
        let closed = eventually("the others are closed", || async {
            let closed = asked("session.close");
            (closed.len() >= 5).then_some(closed)
        })
        .await;
        assert_eq!(
            closed,
            ["live-s1", "live-s2", "live-s3", "live-s4", "live-s5"]
        );
        // One that was closed is opened again when it is needed, and another makes room for it.
        let reply = ask_in(&home, &hermes, "s1", &nothing, &[], &go_on).await;
        assert_eq!(reply.unwrap().text, "Yes.");
        let opened = asked("session.resume");
        assert_eq!(opened.iter().filter(|id| *id == "s1").count(), 2);
        eventually("another one is closed", || async {
            let closed = asked("session.close");
            (closed.last()? == "live-s6").then_some(())
        })
        .await;
        stop.cancel();
    };
    let (slow, ()) = tokio::join!(slow, others);
    assert!(slow.is_err());
    assert!(!asked("session.close").contains(&"live-slow".to_owned()));
}
