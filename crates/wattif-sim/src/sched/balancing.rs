//! When the balancer runs, and the steps it may take: `core`'s side of load balancing.

use super::core::IDLE;
use super::stop::Work;
use crate::simulation::Kernel;
use wattif_model::CpuId;
