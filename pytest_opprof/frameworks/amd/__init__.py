"""AMD's GPUs: profiles of rocprofv3."""
