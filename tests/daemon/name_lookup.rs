//! A name server that never answers: requests to the world wait for it, local work does not.

use std::process::Command;

use serde_json::json;

use crate::support::{Home, SESSION, Wire, request, seed_session, somebody_hands_off, until};

/// Takes the place of the C library's look-up, counts the calls, and never returns.
const DEAD: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
struct addrinfo;
int getaddrinfo(const char *n, const char *s, const struct addrinfo *h, struct addrinfo **r)
{
    int file = open(getenv("TEST_LOOKUPS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0 && write(file, ".", 1) == 1) close(file);
    for (;;) pause();
}
"#;

/// The library that does it, when there is a compiler.
fn dead_name_server(home: &Home) -> Option<String> {
    home.write("dead.c", DEAD);
    let library = home.path().join("dead.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(home.path().join("dead.c"))
        .status();
    built
        .is_ok_and(|status| status.success())
        .then(|| library.display().to_string())
}

#[tokio::test]
async fn a_dead_name_server_holds_up_no_local_work() {
    let home = Home::new();
    seed_session(&home).await;
    let Some(library) = dead_name_server(&home) else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: there is no C compiler to make a dead name server with");
        }
        return;
    };
    let lookups = home.path().join("lookups");
    let _daemon = home.start_with(&[
        ("LD_PRELOAD", &library),
        ("TEST_LOOKUPS", lookups.to_str().expect("a path")),
        ("HERMESD_AGENTS_OPENAI_BASE_URL", "http://models.invalid/v1"),
        ("HERMESD_AGENTS_OPENAI_MODEL", "m"),
        ("HERMESD_AGENT_DEFAULT", "echo"),
    ]);
    // More than tokio's blocking pool has threads.
    let _terminals: Vec<Wire> = (0..6)
        .map(|_| {
            let mut wire = Wire::greeted(&home.socket());
            wire.ask("chat.open", json!({"agent": "openai"}));
            wire.send(&request(json!("said"), "chat.say", json!({"text": "hi"})));
            wire
        })
        .collect();
    until("four look-ups are under way", || {
        let begun = std::fs::metadata(&lookups).map_or(0, |file| file.len());
        (begun >= 4).then_some(())
    });
    let mut other = Wire::greeted(&home.socket());
    let wish = json!({"session": SESSION});
    let page = other.ask("session.transcript", wish);
    assert_eq!(page["session"]["id"], SESSION);
    somebody_hands_off(&home);
}
