//! Rows that other owners left or changed: dead daemons, the Python gateway, a terminal that withdraws or closes.

use hermesd::domain::{HandoffState, RequestedVia};
use hermesd::protocol::{Call, HandoffId, HandoffView};

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, eventually, home_channel, no_thread, seed_session};

const FAST: [(&str, &str); 3] = [
    ("HERMESD_HANDOFF_POLL_INTERVAL", "100ms"),
    ("HERMESD_HANDOFF_LEASE", "1s"),
    ("HERMESD_HANDOFF_ORPHAN_GRACE", "300ms"),
];

async fn state(home: &Home) -> (Option<HandoffState>, Option<String>) {
    let row = home.store().handoff_state(SESSION).await.unwrap().unwrap();
    (row.state, row.error)
}

async fn reaches(home: &Home, wanted: HandoffState) -> Option<String> {
    eventually(wanted.as_str(), || async {
        let (state, error) = state(home).await;
        (state == Some(wanted)).then_some(error)
    })
    .await
}

/// A running row whose owner's lease ends at `until`.
async fn leased_to(home: &Home, owner: &str, until: f64) {
    let store = home.store();
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    store
        .claim_handoff(SESSION, owner, until, home_channel)
        .await
        .unwrap()
        .expect("a claim");
}

#[tokio::test]
async fn a_row_of_another_machine_is_taken_over_when_its_lease_ends_and_not_before() {
    let home = Home::new();
    seed_session(&home).await;
    let until = hermesd::clock::now() + 1.0;
    leased_to(&home, "another-boot:1:1", until).await;
    let daemon = InProcess::start(&home, &FAST).await;
    reaches(&home, HandoffState::Completed).await;
    let handoff: HandoffView = daemon
        .client
        .call(Call::HandoffShow(HandoffId { id: 1 }))
        .await
        .unwrap();
    let resumed = handoff
        .stages
        .iter()
        .find(|s| s.stage == "threaded")
        .unwrap()
        .at;
    assert!(
        resumed >= until,
        "taken over {} s too early",
        until - resumed
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_row_of_a_living_owner_with_a_good_lease_is_left_alone() {
    let home = Home::new();
    seed_session(&home).await;
    leased_to(&home, "another-boot:1:1", hermesd::clock::now() + 3600.0).await;
    let daemon = InProcess::start(&home, &FAST).await;
    // Something else goes through meanwhile, so the queue has looked.
    let other = home
        .store()
        .create_session("cli", None, None)
        .await
        .unwrap();
    daemon.hand_off("local", &other).await;
    assert_eq!(state(&home).await.0, Some(HandoffState::Running));
    daemon.stop().await;
}

#[tokio::test]
async fn a_lease_that_a_wrong_clock_gave_does_not_hold_a_row_for_years() {
    let home = Home::new();
    seed_session(&home).await;
    let decade = 10.0 * 365.0 * 86_400.0;
    leased_to(&home, "another-boot:1:1", hermesd::clock::now() + decade).await;
    let daemon = InProcess::start(&home, &FAST).await;
    reaches(&home, HandoffState::Completed).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_row_of_our_own_that_nobody_is_at_is_taken_up_again() {
    let home = Home::new();
    seed_session(&home).await;
    // As a worker leaves it that was dropped. Its lease ends long after the test: only its owner can know.
    let owner = hermesd::process_identity::Identity::mine().to_string();
    leased_to(&home, &owner, hermesd::clock::now() + 600.0).await;
    let daemon = InProcess::start(&home, &FAST).await;
    reaches(&home, HandoffState::Completed).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_stage_that_panics_fails_its_handoff_and_nothing_else() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        panics: 1.into(),
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &FAST, platform).await;
    daemon.ask("telegram", SESSION).await;
    let reason = reaches(&home, HandoffState::Failed).await.unwrap();
    assert!(reason.contains("panicked"), "{reason}");
    let again: HandoffView = daemon
        .client
        .call(Call::HandoffRetry(HandoffId { id: 1 }))
        .await
        .unwrap();
    assert_eq!(again.id, 2);
    reaches(&home, HandoffState::Completed).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_running_row_that_the_python_gateway_left_is_taken_over_after_the_grace() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'running', handoff_platform = 'local'",
            [],
        )
        .unwrap();
    let daemon = InProcess::start(&home, &FAST).await;
    reaches(&home, HandoffState::Completed).await;
    let handoff: HandoffView = daemon
        .client
        .call(Call::HandoffShow(HandoffId { id: 1 }))
        .await
        .unwrap();
    assert_eq!(handoff.via, "foreign");
    daemon.stop().await;
}

#[tokio::test]
async fn a_terminal_that_gives_up_on_a_running_handoff_is_respected_and_all_is_put_back() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &FAST).await;
    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Hang);
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local'",
            [],
        )
        .unwrap();
    eventually("the agent hangs", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    // As Hermes' CLI does after a minute.
    home.sqlite()
        .execute("UPDATE sessions SET handoff_state = 'failed', handoff_error = 'timed out waiting for gateway'", [])
        .unwrap();
    let handoff = eventually("the journal closes", || async {
        let handoff: HandoffView = daemon
            .client
            .call(Call::HandoffShow(HandoffId { id: 1 }))
            .await
            .unwrap();
        (handoff.state == "failed").then_some(handoff)
    })
    .await;
    assert!(
        handoff
            .error
            .unwrap()
            .contains("timed out waiting for gateway")
    );
    let (state, error) = state(&home).await;
    assert_eq!(
        (state, error.as_deref()),
        (
            Some(HandoffState::Failed),
            Some("timed out waiting for gateway")
        )
    );
    let bindings: i64 = home
        .sqlite()
        .query_row("SELECT count(*) FROM gateway_routing", [], |row| row.get(0))
        .unwrap();
    let source: String = home
        .sqlite()
        .query_row("SELECT source FROM sessions", [], |row| row.get(0))
        .unwrap();
    assert_eq!((bindings, source.as_str()), (0, "cli"));

    // The next request is a new handoff and goes through.
    daemon.agent.moods.lock().unwrap().clear();
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_error = NULL",
            [],
        )
        .unwrap();
    reaches(&home, HandoffState::Completed).await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_terminal_that_leaves_does_not_end_the_session_that_the_chat_owns() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &FAST).await;
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local'",
            [],
        )
        .unwrap();
    reaches(&home, HandoffState::Completed).await;
    // As Hermes' CLI does on its way out.
    let ended =
        "UPDATE sessions SET ended_at = ?1, end_reason = 'cli_close' WHERE ended_at IS NULL";
    assert_eq!(
        home.sqlite()
            .execute(ended, [hermesd::clock::now()])
            .unwrap(),
        1
    );
    eventually("the row is open again", || async {
        let reason: Option<String> = home
            .sqlite()
            .query_row("SELECT end_reason FROM sessions", [], |row| row.get(0))
            .unwrap();
        reason.is_none().then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_old_claim_changes_nothing_once_another_owner_has_the_row() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let old = store
        .claim_handoff(SESSION, "first", 0.0, home_channel)
        .await
        .unwrap()
        .unwrap();
    let orphan = store.running_handoffs().await.unwrap().pop().unwrap();
    let new = store
        .take_over(&orphan, "second", 0.0, home_channel)
        .await
        .unwrap()
        .unwrap();
    assert!(
        store
            .take_over(&orphan, "third", 0.0, home_channel)
            .await
            .unwrap()
            .is_none(),
        "the orphan is no longer as it was seen"
    );
    assert!(store.thread_wanted(&old).await.is_err());
    assert!(store.record_thread(&old, &no_thread()).await.is_err());
    assert!(store.fail_handoff(&old, "late", Vec::new()).await.is_err());
    assert!(
        store.complete_handoff(&new).await.is_err(),
        "stages cannot be skipped"
    );
    store.record_thread(&new, &no_thread()).await.unwrap();
    store.fail_handoff(&new, "over", Vec::new()).await.unwrap();
    assert_eq!(
        state(&home).await,
        (Some(HandoffState::Failed), Some("over".into()))
    );
}

#[tokio::test]
async fn a_request_of_ours_that_another_gateway_took_and_dropped_is_taken_back() {
    let home = Home::new();
    seed_session(&home).await;
    home.store()
        .request_handoff(
            SESSION,
            "local",
            Some("a note"),
            RequestedVia::Direct,
            false,
        )
        .await
        .unwrap();
    home.sqlite()
        .execute("UPDATE sessions SET handoff_state = 'running'", [])
        .unwrap();
    let daemon = InProcess::start(&home, &FAST).await;
    reaches(&home, HandoffState::Completed).await;
    let handoffs: Vec<HandoffView> = daemon
        .client
        .call(Call::HandoffList(Default::default()))
        .await
        .unwrap();
    assert_eq!(handoffs.len(), 1, "the request's own journal row is used");
    assert_eq!(
        (handoffs[0].via.as_str(), handoffs[0].note.as_deref()),
        ("direct", Some("a note"))
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_new_request_over_a_withdrawn_one_puts_back_what_that_had_bound() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let claim = store
        .claim_handoff(SESSION, "gone", 0.0, home_channel)
        .await
        .unwrap()
        .unwrap();
    store.record_thread(&claim, &no_thread()).await.unwrap();
    store
        .record_binding(
            &claim,
            "a:key",
            &hermesd::platform::local::source("home", None),
        )
        .await
        .unwrap();
    assert_eq!(
        store.bound_session("a:key").await.unwrap().as_deref(),
        Some(SESSION)
    );
    // The terminal gives up and asks again before any daemon looks.
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'failed', handoff_error = 'timed out'",
            [],
        )
        .unwrap();
    store
        .request_handoff(SESSION, "telegram", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    assert_eq!(store.bound_session("a:key").await.unwrap(), None);
    assert_eq!(store.session(SESSION).await.unwrap().unwrap().source, "cli");
    assert!(
        store.complete_handoff(&claim).await.is_err(),
        "the old claim is worth nothing"
    );
}

#[tokio::test]
async fn a_cancellation_counts_until_the_reply_is_in_the_chat() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let claim = store
        .claim_handoff(SESSION, "owner", 0.0, home_channel)
        .await
        .unwrap()
        .unwrap();
    // Asked for after the claim was read: the next stage finds out.
    assert!(store.cancel_handoff(claim.handoff.id).await.unwrap());
    assert!(matches!(
        store.record_thread(&claim, &no_thread()).await,
        Err(hermesd::store::StoreError::Cancelled)
    ));
    store
        .fail_handoff(&claim, "cancelled", Vec::new())
        .await
        .unwrap();
    assert!(
        !store.cancel_handoff(claim.handoff.id).await.unwrap(),
        "it has ended"
    );
}

#[tokio::test]
async fn a_terminal_that_gives_up_too_late_does_not_fail_a_completed_handoff() {
    let home = Home::new();
    seed_session(&home).await;
    let settings = [("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")];
    let daemon = InProcess::start(&home, &settings).await;
    let give_up = "UPDATE sessions SET handoff_state = 'failed', handoff_error = 'timed out waiting for gateway'";
    assert_eq!(daemon.hand_off("local", SESSION).await.state, "completed");
    home.sqlite().execute_batch(give_up).unwrap();
    assert_eq!(reaches(&home, HandoffState::Completed).await, None);
    daemon.log.says("restored to completed", 1).await;
    // A request can follow, and its own failure stands.
    let again = daemon.hand_off("local", SESSION).await;
    assert_eq!(again.state, "completed", "{again:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_newer_request_that_timed_out_stays_failed() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    assert_eq!(daemon.hand_off("local", SESSION).await.state, "completed");
    daemon.stop().await;
    // Hermes' CLI asked once more, no daemon came, and it gave up after its 60 seconds.
    home.sqlite()
        .execute_batch(
            "UPDATE hermesd_handoffs SET ended_at = ended_at - 61;
             UPDATE sessions SET handoff_state = 'failed', handoff_error = 'timed out waiting for gateway'",
        )
        .unwrap();
    let (store, now) = (home.store(), hermesd::clock::now());
    assert!(
        store
            .restore_completed(now - 50.0)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(state(&home).await.0, Some(HandoffState::Failed));
}

#[tokio::test]
async fn a_row_for_a_platform_that_another_daemon_serves_is_left_to_it() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let other = home
        .store()
        .create_session("cli", Some("other"), None)
        .await
        .unwrap();
    let ask = "UPDATE sessions SET handoff_state = 'pending', handoff_platform = ?2 WHERE id = ?1";
    home.sqlite().execute(ask, [SESSION, "discord"]).unwrap();
    home.sqlite().execute(ask, [&other, "local"]).unwrap();
    let store = home.store();
    // It is younger: the queue has seen both by then.
    eventually("the row behind it completes", || async {
        let row = store.handoff_state(&other).await.unwrap().unwrap();
        (row.state == Some(HandoffState::Completed)).then_some(())
    })
    .await;
    assert_eq!(state(&home).await, (Some(HandoffState::Pending), None));
    // The other daemon has it.
    let claim = store.claim_handoff(SESSION, "another", f64::MAX, home_channel);
    assert!(claim.await.unwrap().is_some());
    daemon.stop().await;
}
