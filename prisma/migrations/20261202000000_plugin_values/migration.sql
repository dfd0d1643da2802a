-- Expands only: programs of the former release go on working on this schema.

-- AlterTable
ALTER TABLE "sessions" ADD COLUMN     "input_tokens" BIGINT NOT NULL DEFAULT 0,
ADD COLUMN     "output_tokens" BIGINT NOT NULL DEFAULT 0;

-- CreateTable
CREATE TABLE "plugin_settings" (
    "tenant_id" UUID NOT NULL,
    "plugin" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "value" JSONB NOT NULL,
    "updated_by" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "plugin_settings_pkey" PRIMARY KEY ("tenant_id","plugin","key")
);

-- CreateTable
CREATE TABLE "plugin_secrets" (
    "tenant_id" UUID NOT NULL,
    "plugin" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "sealed" BYTEA NOT NULL,
    "updated_by" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "plugin_secrets_pkey" PRIMARY KEY ("tenant_id","plugin","key")
);

-- AddForeignKey
ALTER TABLE "plugin_settings" ADD CONSTRAINT "plugin_settings_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "plugin_secrets" ADD CONSTRAINT "plugin_secrets_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;
