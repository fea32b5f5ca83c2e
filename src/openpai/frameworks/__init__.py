"""FrameworkController's Framework objects: each becomes a job of the platform, and its status follows the job."""
