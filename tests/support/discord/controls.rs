//! What a test does to the gateway and to the limits.

use std::time::Duration;

use super::limits::Limit;
use super::sessions::Order;
use super::{Discord, World};

impl Discord {
    /// Waits until a session has received all that happened.
    pub fn until_listening(&self) {
        self.until("a session that listens", || {
            let world = self.world();
            let mut sessions = world.gateway.sessions.iter();
            let listens = sessions.any(|s| s.connection.is_some() && s.sent == s.seq);
            listens.then_some(())
        });
    }

    /// How many connections to the gateway are open.
    pub fn connections(&self) -> usize {
        self.world().gateway.connections.len()
    }

    /// Does this to all connections that are open now.
    pub fn orders(&self, order: Order) {
        self.change(|world| {
            let all = world.gateway.connections.iter();
            let orders = all.map(|connection| (*connection, order));
            world.gateway.orders.extend(orders.collect::<Vec<_>>());
        });
    }

    /// Closes all connections without a word, and waits until they are closed.
    pub fn drops_connections(&self) {
        let open = self.world().gateway.connections.clone();
        self.orders(Order::Drop);
        self.until("the connections are closed", || {
            let left = self.world().gateway.connections.is_disjoint(&open);
            left.then_some(())
        });
    }

    /// Whether new connections are accepted.
    pub fn accepts_connections(&self, accepts: bool) {
        self.change(|world| world.gateway.accepts = accepts);
    }

    /// Whether heartbeats are acknowledged.
    pub fn acknowledges(&self, acknowledges: bool) {
        self.change(|world| world.gateway.acknowledges = acknowledges);
    }

    /// Forgets all sessions, so that nobody can resume one.
    pub fn forgets_sessions(&self) {
        self.change(|world| world.gateway.sessions.clear());
    }

    /// The privileged intents that the portal permits.
    pub fn portal(&self, intents: u64) {
        self.change(|world| world.gateway.portal = intents);
    }

    /// The last event that a person caused arrives again. If nobody is connected, the next session gets it.
    pub fn repeat_last(&self) {
        self.change(World::repeat_last);
    }

    /// Allows so many calls of a route in each such time, for each channel, guild or webhook.
    pub fn limit(&self, route: &str, count: usize, window: Duration) {
        let limit = Limit { count, window };
        self.change(|world| world.limits.routes.insert(route.to_owned(), limit));
    }

    /// The same for a resource that others use too, so that the headers do not tell of it.
    pub fn limit_shared(&self, route: &str, count: usize, window: Duration) {
        let limit = Limit { count, window };
        self.change(|world| world.limits.shared.insert(route.to_owned(), limit));
    }

    /// Allows so many calls of all routes together in each such time.
    pub fn limit_all(&self, count: usize, window: Duration) {
        self.change(|world| world.limits.global = Some(Limit { count, window }));
    }
}
