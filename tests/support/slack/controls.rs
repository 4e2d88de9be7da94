//! What a test does to Socket Mode and to the limits.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Slack;
use super::limits::Limit;
use super::sockets::{Acknowledgement, Order, Reason};

impl Slack {
    /// Waits until a connection is open.
    pub fn until_listening(&self) {
        self.until("a connection that listens", || {
            (!self.world().sockets.connections.is_empty()).then_some(())
        });
    }

    /// Waits until the app has acknowledged all that happened.
    pub fn until_acknowledged(&self) {
        self.until("all is acknowledged", || {
            self.world().sockets.is_settled().then_some(())
        });
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.world().sockets.connections.len()
    }

    /// Does this to all connections that are open now.
    pub fn orders(&self, order: Order) {
        self.change(|world| {
            let all = world.sockets.connections.keys();
            let orders: Vec<_> = all.map(|number| (*number, order)).collect();
            world.sockets.orders.extend(orders);
        });
    }

    /// Asks all clients to leave.
    pub fn asks_to_leave(&self, reason: Reason) {
        self.orders(Order::Disconnect(reason));
    }

    /// Closes all connections without a word, and waits until they are closed.
    pub fn drops_connections(&self) {
        let open: Vec<u64> = self.world().sockets.connections.keys().copied().collect();
        self.orders(Order::Drop);
        self.until("the connections are closed", || {
            let world = self.world();
            let left = open
                .iter()
                .any(|n| world.sockets.connections.contains_key(n));
            (!left).then_some(())
        });
    }

    /// All connections that are open now stay open and dead: no pings, and what is sent on them is lost.
    pub fn silences_connections(&self) {
        self.change(|world| {
            for silent in world.sockets.connections.values_mut() {
                *silent = true;
            }
        });
    }

    /// Whether new connections are accepted.
    pub fn accepts_connections(&self, accepts: bool) {
        self.change(|world| world.sockets.accepts = accepts);
    }

    /// The time for an acknowledgement, and how long after each failure an event comes again.
    pub fn retries(&self, ack_within: Duration, after: [Duration; 3]) {
        self.change(|world| {
            world.sockets.ack_within = ack_within;
            world.sockets.retry_after = after;
        });
    }

    /// How often the server pings.
    pub fn pings_every(&self, interval: Duration) {
        self.change(|world| world.sockets.ping_every = interval);
    }

    /// Waits until the server has pinged so often.
    pub fn until_pinged(&self, count: usize) {
        self.until("pings", || {
            (self.world().sockets.pings >= count).then_some(())
        });
    }

    /// All that was acknowledged, in that order.
    pub fn acknowledged(&self) -> Vec<Acknowledgement> {
        self.world().sockets.acknowledged.clone()
    }

    /// The payloads that nobody acknowledged in time.
    pub fn unanswered(&self) -> Vec<Value> {
        let world = self.world();
        let unanswered = world.sockets.unanswered.iter();
        unanswered
            .map(|delivery| delivery.payload.clone())
            .collect()
    }

    /// Frames that acknowledge nothing.
    pub fn strays(&self) -> Vec<String> {
        self.world().sockets.strays.clone()
    }

    /// The last event that was acknowledged arrives again, as after an acknowledgement that was lost.
    pub fn repeat_last(&self) {
        self.change(|world| {
            let all = world.sockets.acknowledged.iter().rev();
            let mut events = all.filter(|ack| ack.payload["type"] == "event_callback");
            let last = events.next().expect("an event").payload.clone();
            world.sockets.repeat(last);
        });
    }

    /// Allows so many calls of a method in each such time. For posts that is in each channel.
    pub fn limit(&self, method: &str, count: usize, window: Duration) {
        let limit = Limit { count, window };
        self.change(|world| world.limits.methods.insert(method.to_owned(), limit));
    }

    /// All limits hold that Slack documents.
    pub fn documented_limits(&self) {
        self.change(|world| world.limits.documented());
    }

    /// Messages can be edited for so long.
    pub fn edit_window(&self, window: Duration) {
        self.change(|world| world.edit_window = Some(window));
    }

    /// The addresses for answers to commands and presses no longer work.
    pub fn expires_response_urls(&self) {
        self.change(|world| {
            for response in &mut world.responses {
                response.until = Instant::now();
            }
        });
    }

    /// People can no longer write to the app in its direct channel, and it not to them.
    pub fn closes_messages_tab(&self) {
        self.change(|world| world.app.messages_tab = false);
    }
}
