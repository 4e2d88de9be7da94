//! Resolves host names on separate threads. `getaddrinfo` blocks while a name server does not answer, which would block
//! everything else on tokio's blocking pool.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{Semaphore, oneshot};

/// The limit of simultaneous look-ups. Others wait, and are dropped when their request gives up.
const AT_ONCE: usize = 8;

type LookUp = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The resolver of one HTTP client. Each client has its own, so an agent's dead host name does not block a platform.
pub(crate) struct NameLookup {
    permits: Arc<Semaphore>,
    look_up: LookUp,
}

impl Default for NameLookup {
    fn default() -> Self {
        NameLookup::with(system)
    }
}

impl NameLookup {
    fn with(look_up: LookUp) -> NameLookup {
        NameLookup {
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            look_up,
        }
    }
}

fn system(name: &str) -> io::Result<Vec<SocketAddr>> {
    // The client sets the port.
    Ok((name, 0).to_socket_addrs()?.collect())
}

impl Resolve for NameLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (permits, look_up) = (self.permits.clone(), self.look_up);
        Box::pin(async move {
            let permit = permits.acquire_owned().await?;
            let (reply, found) = oneshot::channel();
            std::thread::Builder::new()
                .name("name-lookup".into())
                .spawn(move || {
                    // Held until the look-up ends, even if its caller has given up.
                    let _permit = permit;
                    let _ = reply.send(look_up(name.as_str()));
                })?;
            let addresses: Addrs = Box::new(found.await??.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    static BEGUN: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

    /// A name server that never answers.
    fn dead(_: &str) -> io::Result<Vec<SocketAddr>> {
        *BEGUN.0.lock().expect("a lock") += 1;
        BEGUN.1.notify_all();
        loop {
            std::thread::park();
        }
    }

    #[tokio::test]
    async fn names_are_found() {
        let names = NameLookup::default();
        let found = names.resolve("127.0.0.1".parse().expect("a name")).await;
        let found: Vec<_> = found.expect("addresses").collect();
        assert_eq!(found, ["127.0.0.1:0".parse().expect("an address")]);
    }

    #[tokio::test]
    async fn look_ups_without_an_answer_are_few() {
        let names = NameLookup::with(dead);
        let mut asked: Vec<Resolving> = (0..AT_ONCE + 3)
            .map(|_| names.resolve("nowhere.invalid".parse().expect("a name")))
            .collect();
        for look_up in &mut asked {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(look_up.as_mut().poll(&mut context).is_pending());
        }
        let begun = BEGUN.0.lock().expect("a lock");
        let begun = BEGUN.1.wait_while(begun, |begun| *begun < AT_ONCE);
        assert_eq!(*begun.expect("a lock"), AT_ONCE);
        assert_eq!(names.permits.available_permits(), 0);
    }
}
